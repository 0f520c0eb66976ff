"""Re-derive: derived fields as the configuration is now; only what differs is written."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.errors import Conflict, Required
from meterlake.model.values.period import Period
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from tests.homes import HEADER, configure, csv_row

METER = {
    "code": "egress",
    "name": "Egress",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
}
SUM = {
    "code": "share_sum",
    "name": "Share",
    "meterId": "egress",
    "targetField": "share",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "X",
}
AUTUMN = Period(datetime(2026, 8, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
SEPTEMBER = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))


def derived(home, calculation, *more):
    field = {"category": "MEASURE", "code": "share", "name": "Share", "calculation": calculation}
    configure(home.organization, meters=[{**METER, "derivedFields": [field, *more]}])


def prepare(home):
    derived(home, "100 / gb")
    configure(home.organization, aggregations=[SUM])
    rows = [csv_row("a1", 4), csv_row("a2", 0), csv_row("a3", 5, ts="2026-08-31T23:00:00Z")]
    home.ingest("a.csv", HEADER + "".join(rows))
    home.ingest("b.csv", HEADER + csv_row("b1", 0, account="bolt") + csv_row("b2", 10))


@pytest.fixture
def home(copies):
    with copies(prepare) as home:
        yield home


def rederivation(id="d1", **changes):
    return Order(BackfillSpec(Mode.REDERIVE, **{"window": AUTUMN} | changes), "ann", id)


def rederived(home, id="d1", **changes):
    backfill.start(home.organization, rederivation(id, **changes))
    return backfill.apply(home.organization, id, "ann")


def shares(home):
    [table] = [name for name in home.organization.lake.tables() if name.startswith("m_")]
    rows = home.query(f'SELECT uid, "measure.share" FROM lake."{table}"')
    return {uid: None if value is None else value.normalize() for uid, value in rows}


def errors(home):
    return home.query(
        "SELECT name, attempt, row, uid, field, detail FROM lake.calculation_error ORDER BY ALL"
    )


def balanced(home):
    assert check_reconciliation(home.organization).differences == ()


@pytest.mark.long
def test_stored_values_become_what_the_meter_says_now(home):
    uids, places = (
        home.uids(),
        home.query("SELECT uid, source, row FROM lake.uid_index ORDER BY ALL"),
    )
    before = home.measurements(of_source=True), errors(home)
    derived(home, "200 / (gb - 10)")

    found = backfill.start(home.organization, rederivation())

    assert shares(home) == {"a1": 25, "a2": None, "a3": 20, "b1": None, "b2": 10}
    assert found.summary["measurementsSeen"] == 5
    assert [
        (
            each["month"],
            each["account"],
            *(x and x["quantity"] for x in (each["before"], each["after"])),
        )
        for each in found.summary["quantities"]
    ] == [
        ("2026-08", "acme", "20", "-40"),
        ("2026-09", "acme", "35", "-53.333333333333"),
        ("2026-09", "bolt", None, "-20"),
    ]
    backfill.apply(home.organization, "d1", "ann")
    assert shares(home) == {
        "a1": Decimal("-33.333333333333"),
        "a2": -20,
        "a3": -40,
        "b1": -20,
        "b2": None,
    }
    assert [row[:5] for row in errors(home)] == [("b.csv", 1, 3, "b2", "share")]
    assert home.uids() == uids
    assert home.query("SELECT uid, source, row FROM lake.uid_index ORDER BY ALL") == places
    balanced(home)
    backfill.revert(home.organization, "d1", "bob")
    assert (home.measurements(of_source=True), errors(home)) == before
    balanced(home)


@pytest.mark.slow
def test_a_second_run_finds_no_change(home):
    derived(home, "200 / (gb - 10)")
    rederived(home)
    before = home.measurements(of_source=True), errors(home)

    found = rederived(home, "d2")

    assert (found.summary["measurementsSeen"], found.summary["measurementsGone"]) == (5, 0)
    assert (home.measurements(of_source=True), errors(home)) == before
    balanced(home)


@pytest.mark.slow
def test_only_the_window_the_meters_and_the_accounts_are_touched(home):
    derived(home, "200 / (gb - 10)")
    [bolt] = [id_ for id_, code in home.account_codes().items() if code == "bolt"]

    rederived(home, window=SEPTEMBER, accounts=(bolt,))

    assert shares(home) == {"a1": 25, "a2": None, "a3": 20, "b1": -20, "b2": 10}
    balanced(home)


@pytest.mark.slow
def test_a_new_field_gets_its_column_and_a_column_stays(home):
    more = {"category": "WHAT", "code": "note", "name": "Note", "calculation": "region"}
    derived(home, "100 / gb", more)

    found = rederived(home)

    assert found.summary["measurementsGone"] == 5
    [table] = [name for name in home.organization.lake.tables() if name.startswith("m_")]
    assert home.query(f'SELECT DISTINCT "what.note" FROM lake."{table}"') == [("eu",)]
    balanced(home)
    backfill.revert(home.organization, "d1", "ann")
    assert home.query(f'SELECT DISTINCT "what.note" FROM lake."{table}"') == [(None,)]
    balanced(home)


@pytest.mark.slow
def test_reverted_it_is_as_before_and_applied_again_as_after(home):
    before = home.measurements(of_source=True), errors(home)
    derived(home, "200 / (gb - 10)")
    rederived(home)
    after = home.measurements(of_source=True), errors(home)

    found = backfill.revert(home.organization, "d1", "bob")

    assert found.status is BackfillStatus.REVERTED
    assert (home.measurements(of_source=True), errors(home)) == before
    balanced(home)
    backfill.restart(home.organization, "d1", "ann")
    backfill.apply(home.organization, "d1", "ann")
    assert (home.measurements(of_source=True), errors(home)) == after
    balanced(home)


@pytest.mark.slow
def test_apply_is_refused_if_the_configuration_or_the_window_has_changed(home):
    derived(home, "1 + gb")
    backfill.start(home.organization, rederivation())
    backfill.start(home.organization, rederivation("d2", window=SEPTEMBER))
    home.ingest("c.csv", HEADER + csv_row("c1", 3))

    with pytest.raises(Conflict, match="the lake has changed"):
        backfill.apply(home.organization, "d2", "ann")
    derived(home, "2 + gb")
    with pytest.raises(Conflict, match="has changed"):
        backfill.apply(home.organization, "d1", "ann")
    backfill.restart(home.organization, "d1", "ann")
    backfill.apply(home.organization, "d1", "ann")
    assert shares(home)["c1"] == 5


@pytest.mark.slow
def test_started_again_after_the_configuration_alone_has_changed_it_is_staged_again(home):
    derived(home, "1 + gb")
    first = backfill.start(home.organization, rederivation())
    assert backfill.start(home.organization, rederivation()) == first
    derived(home, "2 + gb")
    with pytest.raises(Conflict, match="the configuration has changed"):
        backfill.apply(home.organization, "d1", "ann")

    found = backfill.start(home.organization, rederivation())

    assert found.snapshot == first.snapshot
    backfill.apply(home.organization, "d1", "ann")
    assert shares(home) == {"a1": 6, "a2": 2, "a3": 7, "b1": 2, "b2": 12}
    balanced(home)


@pytest.mark.slow
def test_revert_is_refused_if_a_later_backfill_changed_its_rows(home):
    derived(home, "1 + gb")
    rederived(home)
    derived(home, "2 + gb")
    rederived(home, "d2", window=SEPTEMBER)

    with pytest.raises(Conflict, match="a later backfill changed"):
        backfill.revert(home.organization, "d1", "ann")
    backfill.revert(home.organization, "d2", "ann")
    backfill.revert(home.organization, "d1", "ann")
    assert shares(home) == {"a1": 25, "a2": None, "a3": 20, "b1": None, "b2": 10}
    balanced(home)


def test_a_window_is_needed():
    with pytest.raises(Required, match="window"):
        BackfillSpec(Mode.REDERIVE).check()
