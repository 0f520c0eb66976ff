"""Re-aggregate: the quantities of a window's periods as they are now; the older runs stay below."""

from datetime import UTC, date, datetime

import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.errors import Conflict
from meterlake.model.values.period import Month, Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.backfill.partial_rerun import Chosen
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.pipeline.usage.explain import QuantityFilter as Asking
from meterlake.pipeline.usage.explain import explain
from tests.homes import HEADER, a_home, configure, csv_row
from tests.integration.pipeline.backfill.test_retract import SUM

AUTUMN = Period(datetime(2026, 8, 15, tzinfo=UTC), datetime(2026, 9, 15, tzinfo=UTC))
WEEK = PeriodSpec.on(BillingFrequency.WEEKLY, date(2026, 9, 3))
CURRENT = """
    SELECT coalesce(period, month), q.quantity, q.measurements FROM lake.quantity q SEMI JOIN (
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM lake.quantity GROUP BY frequency, period
    ) newest USING (run_id) WHERE q.account_id IS NOT NULL ORDER BY ALL"""


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as home:
        configure(home.organization, aggregations=[SUM])
        home.ingest(
            "a.csv", HEADER + csv_row("a1", 1) + csv_row("a2", 2, ts="2026-08-31T12:00:00Z")
        )
        for asked in (Month(2026, 8), Month(2026, 9), WEEK):
            aggregate(home.organization, asked)
        home.ingest("late.csv", HEADER + csv_row("b1", 4))
        home.clock.advance(seconds=1)
        yield home


def order(id="q1", window=AUTUMN, **changes):
    return Order(BackfillSpec(Mode.REAGGREGATE, window=window, **changes), "ann", id)


@pytest.mark.long
def test_late_measurements_come_into_all_periods_of_the_window(home):
    before = home.query(CURRENT)

    found = backfill.start(home.organization, order())

    assert home.query(CURRENT) == before
    assert found.summary["months"][:2] == ["2026-08", "2026-09"]
    assert (found.summary["runs"], found.summary["runsChanged"]) == (3, 2)
    assert [
        (each["month"], each["before"]["quantity"], each["after"]["quantity"])
        for each in found.summary["quantities"]
    ] == [("2026-09", "1", "5"), ("2026-09-01", "1", "5")]
    backfill.apply(home.organization, "q1", "ann")
    after = home.query(CURRENT)
    assert [row[1:] for row in after] == [("2", 1), ("5", 2), ("5", 2)]
    assert not aggregate(home.organization, Month(2026, 9)).appended
    backfill.revert(home.organization, "q1", "ann")
    assert home.query(CURRENT) == before


@pytest.mark.slow
def test_once_more_there_is_nothing_to_do_and_it_comes_and_goes(home):
    before = home.query(CURRENT)
    backfill.start(home.organization, order())
    backfill.apply(home.organization, "q1", "ann")
    after = home.query(CURRENT)
    # Once more there is nothing to do; taken back, the runs before stand again.
    again = backfill.start(home.organization, order("q2"))
    assert again.summary["runsChanged"] == 0
    backfill.revert(home.organization, "q1", "ann")
    assert home.query(CURRENT) == before
    backfill.restart(home.organization, "q1", "ann")
    backfill.apply(home.organization, "q1", "ann")
    assert home.query(CURRENT) == after


@pytest.mark.slow
def test_it_is_refused_if_measurements_configuration_or_runs_came_meanwhile(home):
    backfill.start(home.organization, order())
    home.ingest("other.csv", HEADER + csv_row("c1", 8, ts="2026-07-01T00:00:00Z"))
    backfill.start(home.organization, order("q2"))
    backfill.start(home.organization, order("q3"))
    configure(home.organization, aggregations=[{**SUM, "unit": "gigabyte"}])
    with pytest.raises(Conflict, match="the configuration of 2026-08 has changed"):
        backfill.apply(home.organization, "q1", "ann")
    home.ingest("more.csv", HEADER + csv_row("c2", 8))
    with pytest.raises(Conflict, match="has changed"):
        backfill.apply(home.organization, "q2", "ann")
    backfill.restart(home.organization, "q2", "ann")
    home.ingest("again.csv", HEADER + csv_row("c3", 8))
    with pytest.raises(Conflict, match="the measurements of 2026-09 have changed"):
        backfill.apply(home.organization, "q2", "ann")
    backfill.restart(home.organization, "q2", "ann")
    backfill.apply(home.organization, "q2", "ann")
    home.ingest("last.csv", HEADER + csv_row("c4", 8))
    home.clock.advance(seconds=1)
    aggregate(home.organization, Month(2026, 9))
    with pytest.raises(Conflict, match="2026-09 was aggregated again since"):
        backfill.revert(home.organization, "q2", "ann")


ROWS = """
    SELECT q.* FROM lake.quantity q SEMI JOIN (
        SELECT arg_max(run_id, (computed_at, run_id)) AS run_id
        FROM lake.quantity GROUP BY frequency, period
    ) newest USING (run_id) WHERE q.account_id IS NOT NULL AND q.period = '2026-09'"""


def two_accounts(home):
    calls = {**SUM, "code": "calls_sum", "meterId": "calls", "targetField": "n"}
    double = {**SUM, "code": "double", "name": "D", "calculation": "aggregation.gb_sum * 2"}
    both = {**double, "code": "both", "calculation": "aggregation.gb_sum + aggregation.calls_sum"}
    drop = ("meterId", "targetField", "aggregation")
    compounds = [{k: v for k, v in each.items() if k not in drop} for each in (double, both)]
    configure(home.organization, aggregations=[SUM, calls], compoundAggregations=compounds)
    used(home, "first", 1)
    aggregate(home.organization, Month(2026, 9))
    used(home, "late", 10)
    home.clock.advance(seconds=1)


def used(home, name, amount):
    calls = "meter,account,uid,ts,measure.n,cost.own,metadata.key\n"
    rows = [csv_row(f"{name}{code}", amount, code) for code in ("acme", "bolt")]
    home.ingest(f"{name}.csv", HEADER + "".join(rows))
    lines = [
        f"calls,{code},{name}c{code},2026-09-03T10:00:00Z,{amount},1,k\n"
        for code in ("acme", "bolt")
    ]
    assert home.ingest(f"{name}-calls.csv", calls + "".join(lines)).accepted == 2


def named(home):
    """The newest quantities of September, by account and aggregation."""
    codes = home.account_codes()
    around = home.organization.configuration()
    names = {
        record.id: record.entity.code
        for kind in (Aggregation, CompoundAggregation)
        for record in around.all(kind)
    }
    rows = home.query(ROWS.replace("q.*", "q.account_id, q.aggregation_id, q.quantity", 1))
    return {(codes[account], names[id_]): quantity for account, id_, quantity in rows}


@pytest.mark.long
def test_only_chosen_meters_and_accounts_are_calculated_the_rest_is_carried_over(copies):
    with copies(two_accounts) as home:
        ids = {code: id_ for id_, code in home.account_codes().items()}
        [egress] = [
            each.id
            for each in home.organization.configuration().all(Meter)
            if each.entity.code == "egress"
        ]
        before = named(home)
        chosen = order(accounts=(ids["acme"],), meters=(egress,))

        found = backfill.start(home.organization, chosen)

        # Months that were never aggregated have nothing to carry over.
        assert found.summary["months"] == ["2026-09"]
        assert {
            (each["account"], each["aggregation"], each["before"]["quantity"])
            for each in found.summary["quantities"]
        } == {("acme", name, before["acme", name]) for name in ("gb_sum", "double", "both")}
        backfill.apply(home.organization, "q1", "ann")
        changed = {"gb_sum": "11", "double": "22", "both": "12"}
        after = before | {("acme", name): value for name, value in changed.items()}
        assert named(home) == after
        # Each quantity can be explained, from the snapshot that it was folded from.
        counts = {
            (code, name): explain(home.organization, Asking(code, name, "2026-09"))[0]
            for code in ids
            for name in ("gb_sum", "calls_sum")
            if (code, name) in after
        }
        assert {place: len(each.to_wire()["measurements"]) for place, each in counts.items()} == {
            ("acme", "gb_sum"): 2,
            ("acme", "calls_sum"): 1,
            ("bolt", "gb_sum"): 1,
            ("bolt", "calls_sum"): 1,
        }
        [[statements]] = home.query(
            "SELECT count(*) FROM lake.quantity_statement s WHERE s.run_id IN"
            f" (SELECT run_id FROM ({ROWS}) AS c)"
        )
        assert statements == len(
            {row[0] for row in home.query(ROWS.replace("q.*", "q.statement_id", 1))}
        )
        # What is not of the chosen accounts may come in meanwhile; the whole run follows.
        assert aggregate(home.organization, Month(2026, 9)).appended
        assert set(named(home).values()) == {"11", "22"}


@pytest.mark.slow
def test_what_others_use_meanwhile_does_not_matter_to_chosen_accounts(copies):
    with copies(two_accounts) as home:
        [acme] = [id_ for id_, code in home.account_codes().items() if code == "acme"]
        backfill.start(home.organization, order(accounts=(acme,)))
        home.ingest("bolt.csv", HEADER + csv_row("b9", 9, "bolt"))
        backfill.apply(home.organization, "q1", "ann")
        backfill.start(home.organization, order("q2", accounts=(acme,)))
        home.ingest("acme.csv", HEADER + csv_row("a9", 9))

        with pytest.raises(Conflict, match="the measurements of 2026-09 have changed"):
            backfill.apply(home.organization, "q2", "ann")


def test_a_compound_is_chosen_with_any_meter_that_it_reads():
    chosen = Chosen(frozenset({"m"}), frozenset(), {"c": frozenset({"m", "n"}), "d": frozenset()})

    assert chosen.has("a", "s", "m")
    assert not chosen.has("a", "s", "n")
    assert chosen.has("a", "c", None)
    assert not chosen.has("a", "d", None)


@pytest.mark.long
def test_finished_runs_are_kept_when_staging_is_interrupted(home):
    seen = []

    class Stopped(Exception):
        pass

    def stop(rows, *_):
        seen.append(rows)
        raise Stopped

    with pytest.raises(Stopped):
        backfill.start(home.organization, order(), stop)
    notes = home.organization.lake.folder / "backfills" / "q1" / "rows"
    kept = {path.name: path.stat().st_mtime_ns for path in notes.glob("*.json")}
    assert kept

    found = backfill.start(home.organization, order())

    assert (found.summary["runs"], found.summary["runsChanged"]) == (3, 2)
    now = {path.name: path.stat().st_mtime_ns for path in notes.glob("*.json")}
    assert kept.items() <= now.items()
    assert len(now) == 3
    rows = []
    backfill.apply(home.organization, "q1", "ann", lambda count, *_: rows.append(count))
    assert sum(rows) == 5


def with_an_epoch(home):
    account = {"code": "bolt", "name": "Bolt", "emailAddress": "bills@bolt.example"}
    configure(
        home.organization, aggregations=[SUM], accounts=[{**account, "billEpoch": "2022-01-15"}]
    )
    home.ingest("a.csv", HEADER + csv_row("a1", 1, ts="2026-09-20T00:00:00Z"))
    for month in (7, 8, 9):
        aggregate(home.organization, Month(2026, month))


@pytest.mark.long
def test_runs_whose_periods_reach_into_the_window_count_and_all_that_they_read(copies):
    september = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
    with copies(with_an_epoch) as home:
        late = csv_row("b1", 4, ts="2026-09-05T00:00:00Z", account="bolt")
        home.ingest("late.csv", HEADER + late)

        found = backfill.start(home.organization, order(window=september))

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
            backfill.apply(home.organization, "q1", "ann")
