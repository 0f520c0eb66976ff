"""Re-aggregate: the quantities of a window's periods as they are now; the older runs stay below."""

from datetime import UTC, date, datetime

import pytest

from meterlake.model.backfill import Mode, Wanted
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.period import Month, Period
from meterlake.model.pricing import BillingFrequency
from meterlake.model.recurring_period import Asked
from meterlake.pipeline import backfill
from meterlake.pipeline.aggregate import aggregate
from meterlake.pipeline.backfill import Order
from tests.homes import HEADER, a_home, configure, csv_row
from tests.unit.pipeline.backfill.test_retract import SUM

AUTUMN = Period(datetime(2026, 8, 15, tzinfo=UTC), datetime(2026, 9, 15, tzinfo=UTC))
WEEK = Asked.on(BillingFrequency.WEEKLY, date(2026, 9, 3))
CURRENT = """
    SELECT coalesce(period, month), q.quantity, q.measurements FROM lake.quantity q SEMI JOIN (
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM lake.quantity GROUP BY frequency, period
    ) newest USING (run_id) WHERE q.account_id IS NOT NULL ORDER BY ALL"""


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as home:
        configure(home.stores, home.org_id, aggregations=[SUM])
        home.ingest(
            "a.csv", HEADER + csv_row("a1", 1) + csv_row("a2", 2, ts="2026-08-31T12:00:00Z")
        )
        for asked in (Month(2026, 8), Month(2026, 9), WEEK):
            aggregate(home.stores, home.org_id, asked)
        home.ingest("late.csv", HEADER + csv_row("b1", 4))
        home.clock.advance(seconds=1)
        yield home


def order(id="q1", window=AUTUMN, **changes):
    return Order(Wanted(Mode.REAGGREGATE, window=window, **changes), "ann", id)


def test_late_measurements_come_into_all_periods_of_the_window(home):
    before = home.query(CURRENT)

    found = backfill.start(home.stores, home.org_id, order())

    assert home.query(CURRENT) == before
    assert found.summary["months"][:2] == ["2026-08", "2026-09"]
    assert (found.summary["runs"], found.summary["runsChanged"]) == (3, 2)
    assert [
        (each["month"], each["before"]["quantity"], each["after"]["quantity"])
        for each in found.summary["quantities"]
    ] == [("2026-09", "1", "5"), ("2026-09-01", "1", "5")]
    backfill.apply(home.stores, home.org_id, "q1", "ann")
    after = home.query(CURRENT)
    assert [row[1:] for row in after] == [("2", 1), ("5", 2), ("5", 2)]
    assert not aggregate(home.stores, home.org_id, Month(2026, 9)).appended
    backfill.revert(home.stores, home.org_id, "q1", "ann")
    assert home.query(CURRENT) == before


@pytest.mark.slow
def test_once_more_there_is_nothing_to_do_and_it_comes_and_goes(home):
    before = home.query(CURRENT)
    backfill.start(home.stores, home.org_id, order())
    backfill.apply(home.stores, home.org_id, "q1", "ann")
    after = home.query(CURRENT)
    # Once more there is nothing to do; taken back, the runs before stand again.
    again = backfill.start(home.stores, home.org_id, order("q2"))
    assert again.summary["runsChanged"] == 0
    backfill.revert(home.stores, home.org_id, "q1", "ann")
    assert home.query(CURRENT) == before
    backfill.restart(home.stores, home.org_id, "q1", "ann")
    backfill.apply(home.stores, home.org_id, "q1", "ann")
    assert home.query(CURRENT) == after


@pytest.mark.slow
def test_it_is_refused_if_measurements_configuration_or_runs_came_meanwhile(home):
    backfill.start(home.stores, home.org_id, order())
    home.ingest("other.csv", HEADER + csv_row("c1", 8, ts="2026-07-01T00:00:00Z"))
    backfill.start(home.stores, home.org_id, order("q2"))
    backfill.start(home.stores, home.org_id, order("q3"))
    configure(home.stores, home.org_id, aggregations=[{**SUM, "unit": "gigabyte"}])
    with pytest.raises(Conflict, match="the configuration of 2026-08 has changed"):
        backfill.apply(home.stores, home.org_id, "q1", "ann")
    home.ingest("more.csv", HEADER + csv_row("c2", 8))
    with pytest.raises(Conflict, match="has changed"):
        backfill.apply(home.stores, home.org_id, "q2", "ann")
    backfill.restart(home.stores, home.org_id, "q2", "ann")
    home.ingest("again.csv", HEADER + csv_row("c3", 8))
    with pytest.raises(Conflict, match="the measurements of 2026-09 have changed"):
        backfill.apply(home.stores, home.org_id, "q2", "ann")
    backfill.restart(home.stores, home.org_id, "q2", "ann")
    backfill.apply(home.stores, home.org_id, "q2", "ann")
    home.ingest("last.csv", HEADER + csv_row("c4", 8))
    home.clock.advance(seconds=1)
    aggregate(home.stores, home.org_id, Month(2026, 9))
    with pytest.raises(Conflict, match="2026-09 was aggregated again since"):
        backfill.revert(home.stores, home.org_id, "q2", "ann")


def test_it_is_about_whole_periods():
    wanted = Wanted(Mode.REAGGREGATE, window=AUTUMN, accounts=("a",))

    with pytest.raises(Invalid, match="calculated together"):
        wanted.check()


def with_an_epoch(home):
    account = {"code": "bolt", "name": "Bolt", "emailAddress": "bills@bolt.example"}
    configure(
        home.stores,
        home.org_id,
        aggregations=[SUM],
        accounts=[{**account, "billEpoch": "2022-01-15"}],
    )
    home.ingest("a.csv", HEADER + csv_row("a1", 1, ts="2026-09-20T00:00:00Z"))
    for month in (7, 8, 9):
        aggregate(home.stores, home.org_id, Month(2026, month))


def test_runs_whose_periods_reach_into_the_window_count_and_all_that_they_read(copies):
    september = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
    with copies(with_an_epoch) as home:
        late = csv_row("b1", 4, ts="2026-09-05T00:00:00Z", account="bolt")
        home.ingest("late.csv", HEADER + late)

        found = backfill.start(home.stores, home.org_id, order(window=september))

        # What bolt used on 5 September is of its period that began on 15 August.
        assert found.summary["months"] == ["2026-08", "2026-09"]
        assert [
            (each["month"], each["account"], each["after"]["quantity"])
            for each in found.summary["quantities"]
        ] == [("2026-08", "bolt", "4")]
        home.clock.advance(days=30)
        october = csv_row("b2", 8, ts="2026-10-05T00:00:00Z", account="bolt")
        home.ingest("october.csv", HEADER + october)
        with pytest.raises(Conflict, match="the measurements of 2026-09 have changed"):
            backfill.apply(home.stores, home.org_id, "q1", "ann")
