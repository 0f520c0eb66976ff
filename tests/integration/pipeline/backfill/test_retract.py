"""Retract: what was withdrawn is free again, what was pinned still reads it, the books balance."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest

from meterlake.model.bills.unbilled import ReviewKind
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Busy, Conflict, Invalid, NotFound, Required
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month, Period
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.backfill.job import lock_backfill
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.closing.bill_review import review_bills
from meterlake.pipeline.home.status import status
from meterlake.pipeline.ingest.rejected_rows import list_rejected, show_rejected
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.pipeline.rejected.receipts import show_receipts, uid_receipts
from meterlake.pipeline.rejected.rejected_files import Edit
from meterlake.pipeline.rejected.requeue import requeue, requeue_edited
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.lake.rejected import RejectedFilter
from tests.databases import need_folder
from tests.homes import HEADER, configure, csv_row, open_home, wire_row
from tests.integration.pipeline.rejected.test_rejected import LATER

SUM = {
    "code": "gb_sum",
    "name": "Sent",
    "meterId": "egress",
    "targetField": "gb",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
}
DATA = HEADER + csv_row("a1", 1) + csv_row("a2", "2.5", account="bolt") + csv_row("a3", "x")
OTHER = HEADER + csv_row("b1", 4) + csv_row("b2", 8, ts="2026-08-31T23:59:59Z")


def prepare(home):
    configure(home.organization, aggregations=[SUM])
    home.ingest("a.csv", DATA)
    home.ingest("b.csv", OTHER)


@pytest.fixture
def home(copies):
    with copies(prepare) as home:
        yield home


def identity(home, name="a.csv"):
    [row] = home.query(f"SELECT DISTINCT identity FROM lake.source WHERE name = '{name}'")
    return row[0]


@pytest.fixture(scope="module")
def unchanged(copies):
    with copies(prepare) as home:
        yield home


def retraction(home, id="r1", **changes):
    wanted = {"source": identity(home), "reason": "wrong file"} | changes
    return Order(BackfillSpec(Mode.RETRACT, **wanted), "ann", id)


def retracted(home, id="r1", **changes):
    backfill.start(home.organization, retraction(home, id, **changes))
    return backfill.apply(home.organization, id, "ann")


def lake(home):
    return home.measurements(of_source=True), home.uids()


def balanced(home):
    found = check_reconciliation(home.organization)
    assert found.differences == ()
    return found


def test_staging_shows_the_difference_and_changes_nothing(unchanged):
    home = unchanged
    before, snapshot = lake(home), home.organization.lake.snapshot()

    found = backfill.start(home.organization, retraction(home, uuid4().hex))

    assert lake(home) == before
    assert home.organization.lake.snapshot() == snapshot == found.snapshot
    assert found.status is BackfillStatus.STAGED
    assert found.summary["measurementsGone"] == 2
    assert found.summary["months"] == ["2026-09"]
    quantities = [
        (each["account"], each["before"]["quantity"], each["after"] and each["after"]["quantity"])
        for each in found.summary["quantities"]
    ]
    assert quantities == [("acme", "5", "4"), ("bolt", "2.5", None)]


@pytest.mark.slow
def test_applied_it_is_gone_and_an_old_snapshot_still_has_it(home):
    found = retracted(home)

    assert found.status is BackfillStatus.APPLIED
    assert [row[1] for row in home.query("SELECT source, uid FROM lake.uid_index ORDER BY 2")] == [
        "b1",
        "b2",
    ]
    [table] = [name for name in home.organization.lake.tables() if name.startswith("m_")]
    count = f'SELECT count(*) FROM lake."{table}"'
    assert home.query(count) == [(2,)]
    assert home.query(f"{count} AT (VERSION => {found.snapshot})") == [(4,)]
    assert balanced(home).totals["retracted"] == 2
    assert aggregate(home.organization, Month(2026, 9)).quantities[0].value == 4


def test_receipts_say_by_what_it_was_retracted_and_the_same_bytes_come_in_again(home):
    before = lake(home)
    retracted(home)

    [shown] = show_receipts(home.organization, identity(home))
    [seen, other] = uid_receipts(home.organization, ["a1", "b1"])

    [mark] = shown["retracted"]
    assert (mark["backfill"], mark["reason"], mark["measurements"]) == ("r1", "wrong file", 2)
    assert seen["status"] == "retracted"
    assert [(each["backfill"], each["row"]) for each in seen["retracted"]] == [("r1", 2)]
    assert (other["status"], other["retracted"]) == ("accepted", [])
    home.clock.advance(seconds=1)
    receipt = home.ingest("a.csv", DATA)
    assert (receipt.attempt, receipt.accepted, receipt.repeats, receipt.rejected) == (2, 2, 0, 1)
    [seen] = uid_receipts(home.organization, ["a1"])
    assert (seen["status"], seen["attempt"], len(seen["retracted"])) == ("accepted", 2, 1)
    assert lake(home) == before
    balanced(home)


@pytest.mark.slow
def test_bytes_that_came_in_again_are_repeats_from_then_on(home):
    retracted(home)
    home.ingest("a.csv", DATA)

    again = home.ingest("a.csv", DATA)

    assert (again.accepted, again.repeats, again.rejected) == (0, 2, 1)
    balanced(home)


@pytest.mark.long
def test_rows_that_repeated_what_is_withdrawn_come_in_with_their_own_file(home):
    more = HEADER + csv_row("a1", 1) + csv_row("m1", 3) + csv_row("a3", "x")
    assert home.ingest("more.csv", more).repeats == 1
    retracted(home)

    again = home.ingest("more.csv", more)

    assert (again.accepted, again.repeats, again.rejected) == (1, 1, 1)
    assert {uid for uid, *_ in home.uids()} == {"a1", "b1", "b2", "m1"}
    balanced(home)
    # Now it has all of it: what nobody has any more (a2) was never in it.
    assert home.ingest("more.csv", more).repeats == 2


@pytest.mark.slow
def test_a_freed_uid_can_be_taken_by_another_source(home):
    retracted(home)

    assert home.ingest("c.csv", HEADER + csv_row("a1", 9)).accepted == 1
    assert home.ingest("d.csv", HEADER + csv_row("a1", 10)).rejected == 1
    balanced(home)


@pytest.mark.slow
def test_chosen_uids_go_and_only_they_come_in_again(home):
    before = lake(home)

    found = retracted(home, source=None, uids=("a1", "b2"))

    assert found.summary["measurementsGone"] == 2
    assert found.summary["months"] == ["2026-08", "2026-09"]
    balanced(home)
    first = home.ingest("a.csv", DATA)
    assert (first.accepted, first.repeats, first.rejected) == (1, 1, 1)
    assert home.ingest("b.csv", OTHER).accepted == 1
    assert lake(home) == before
    balanced(home)


@pytest.mark.long
def test_reverted_it_is_as_before(home):
    before = lake(home)
    retracted(home)

    found = backfill.revert(home.organization, "r1", "bob")

    assert found.status is BackfillStatus.REVERTED
    assert lake(home) == before
    assert balanced(home).totals["retracted"] == 0


@pytest.mark.slow
def test_it_comes_and_goes(home):
    before = lake(home)
    retracted(home)
    after = lake(home)
    backfill.revert(home.organization, "r1", "bob")
    # Their uids are known again.
    assert home.ingest("c.csv", HEADER + csv_row("a1", 9)).rejected == 1
    assert home.ingest("e.csv", HEADER + csv_row("a1", 1)).repeats == 1
    backfill.restart(home.organization, "r1", "ann")
    backfill.apply(home.organization, "r1", "ann")
    assert lake(home) == after
    balanced(home)
    backfill.revert(home.organization, "r1", "bob")
    assert lake(home) == before
    balanced(home)
    history = backfill.show(home.organization, "r1").history
    assert [(each.action.value, each.author) for each in history] == [
        *(("stage", "ann"), ("apply", "ann"), ("revert", "bob")),
        *(("stage", "ann"), ("apply", "ann"), ("revert", "bob")),
    ]


@pytest.mark.slow
def test_every_step_again_changes_nothing(home):
    order = retraction(home)
    staged = backfill.start(home.organization, order)
    assert backfill.start(home.organization, order) == staged
    applied = backfill.apply(home.organization, "r1", "ann")
    snapshot = home.organization.lake.snapshot()
    assert backfill.apply(home.organization, "r1", "ann") == applied
    assert backfill.start(home.organization, order) == applied
    reverted = backfill.revert(home.organization, "r1", "ann")
    assert home.organization.lake.snapshot() == snapshot + 1
    assert backfill.revert(home.organization, "r1", "ann") == reverted
    assert home.organization.lake.snapshot() == snapshot + 1


@pytest.mark.long
def test_what_is_dropped_is_gone_but_for_the_history(unchanged):
    home, id_ = unchanged, uuid4().hex
    before = lake(home)
    backfill.start(home.organization, retraction(home, id_))

    found = backfill.drop(home.organization, id_, "ann")

    assert found.status is BackfillStatus.DROPPED
    assert lake(home) == before
    assert not (home.organization.lake_folder / "backfills" / id_).exists()
    assert backfill.drop(home.organization, id_, "ann") == found
    with pytest.raises(Conflict, match="DROPPED and cannot be applied"):
        backfill.apply(home.organization, id_, "ann")
    assert id_ in {each.id for each in backfill.history(home.organization)}


@pytest.mark.slow
def test_apply_is_refused_if_the_source_got_more_rows_meanwhile(home):
    backfill.start(home.organization, retraction(home, source=identity(home, "a.csv")))
    backfill.start(home.organization, retraction(home, "r2", source=identity(home, "b.csv")))
    # The row that was rejected can be read now.
    configure(home.organization, meters=[])
    retracted(home, "other", source=None, uids=("a1",))

    with pytest.raises(Conflict, match="has changed since"):
        backfill.apply(home.organization, "r1", "ann")
    assert backfill.apply(home.organization, "r2", "ann").applied
    found = backfill.restart(home.organization, "r1", "ann")
    assert found.summary["measurementsGone"] == 1
    backfill.apply(home.organization, "r1", "ann")
    assert home.uids() == []
    balanced(home)


@pytest.mark.slow
def test_what_does_not_touch_it_may_come_meanwhile(home):
    backfill.start(home.organization, retraction(home))
    home.ingest("c.csv", HEADER + csv_row("c1", 3))

    backfill.apply(home.organization, "r1", "ann")

    assert len(home.uids()) == 3
    balanced(home)


@pytest.mark.parametrize(
    ("changes", "error", "about"),
    [
        ({"reason": None}, Required, "reason"),
        ({"reason": " \n"}, Required, "reason"),
        ({"source": None}, Required, "source or uids"),
        ({"uids": ("a1",)}, Required, "source or uids"),
        ({"accounts": ("a",)}, Invalid, "leave out since, until"),
        (
            {"window": Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 9, 2, tzinfo=UTC))},
            Invalid,
            "leave out since, until",
        ),
        ({"source": "ff" * 32}, NotFound, "no measurement of source"),
        ({"source": None, "uids": ("a1", "nobody")}, NotFound, "with uid 'nobody'"),
        ({"id": "../x"}, Invalid, "letters, digits"),
    ],
)
def test_what_makes_no_sense_is_refused(unchanged, changes, error, about):
    home, changes = unchanged, {"id": uuid4().hex, **changes}
    with pytest.raises(error, match=about):
        backfill.start(home.organization, retraction(home, **changes))


@pytest.mark.long
def test_an_id_stands_for_one_backfill(unchanged):
    home, id_ = unchanged, uuid4().hex
    backfill.start(home.organization, retraction(home, id_))

    other = retraction(home, id_, source=identity(home, "b.csv"))
    with pytest.raises(Conflict, match="about something else"):
        backfill.start(home.organization, other)


@pytest.mark.long
def test_whoever_applies_it_may_die_after_the_commit_and_a_taken_uid_stops_its_revert(
    home, monkeypatch
):
    backfill.start(home.organization, retraction(home))
    monkeypatch.setattr(failpoint, "hook", lambda name: 1 // (name != "backfill.committed"))
    with pytest.raises(ZeroDivisionError):
        backfill.apply(home.organization, "r1", "ann")
    monkeypatch.setattr(failpoint, "hook", None)
    snapshot = home.organization.lake.snapshot()
    assert backfill.show(home.organization, "r1").status is BackfillStatus.STAGED

    found = backfill.apply(home.organization, "r1", "bob")

    assert (found.status, found.applied) == (BackfillStatus.APPLIED, snapshot)
    assert home.organization.lake.snapshot() == snapshot
    balanced(home)
    # It cannot be reverted once somebody took a uid.
    home.ingest("c.csv", HEADER + csv_row("a1", 9))
    with pytest.raises(Conflict, match=r"with the uids of what it withdrew came in since.*'a1'"):
        backfill.revert(home.organization, "r1", "ann")
    assert home.organization.lake.snapshot() == snapshot + 1
    assert backfill.show(home.organization, "r1").status is BackfillStatus.APPLIED


@pytest.mark.long
def test_what_is_withdrawn_already_says_by_what(home):
    retracted(home)

    with pytest.raises(
        Conflict, match=r"of source 'a.csv' \(\w{12}\) .* already, by backfill 'r1'"
    ):
        backfill.start(home.organization, retraction(home, "r2"))
    chosen = {"source": None, "uids": ("a1", "b1", "a2")}
    with pytest.raises(Conflict, match=r"uid 'a1', 'a2' were withdrawn already, by backfill 'r1'"):
        backfill.start(home.organization, retraction(home, "r3", **chosen))


@pytest.mark.long
def test_measurements_of_an_account_that_was_deleted_meanwhile_do_not_come_back(home):
    retracted(home)
    home.clock.advance(seconds=1)
    [bolt] = [id_ for id_, code in home.account_codes().items() if code == "bolt"]
    with home.organization.transaction("bob") as transaction:
        transaction.delete(Account, bolt)
    before = lake(home)

    with pytest.raises(Conflict, match=r"account 'bolt' was deleted since .*: 1\)"):
        backfill.revert(home.organization, "r1", "ann")

    assert lake(home) == before
    # As the error says.
    assert home.ingest("a.csv", DATA).accepted == 2
    assert {"acme", "bolt"} <= set(home.account_codes().values())
    balanced(home)


@pytest.mark.slow
def test_it_can_be_reverted_after_upkeep_and_a_move(home, tmp_path):
    need_folder()
    from datetime import timedelta

    from meterlake.pipeline.maintenance.maintain import maintain

    rows = "".join(csv_row(f"m{number}", number) for number in range(3_000))
    home.ingest("many.csv", HEADER + rows)
    before = lake(home)
    retracted(home, source=None, uids=tuple(f"m{number}" for number in range(0, 3_000, 2)))
    retracted(home, "r2", source=None, uids=("a1", "m1"))
    bill(home.organization, Month(2026, 9))
    for number in range(3):
        home.ingest(f"{number}.csv", HEADER + csv_row(f"later{number}"))
        maintain(home.organization, kept_for=timedelta(0), snapshots_for=timedelta(0))
    folder, org_id = home.stores.home, home.org_id
    home.stores.close()

    moved = Path(shutil.copytree(folder, tmp_path / "moved"))
    shutil.rmtree(folder)
    with open_home(moved, org_id) as other:
        organization = other.stores.organization(org_id)
        backfill.revert(organization, "r2", "ann")
        backfill.revert(organization, "r1", "ann")
        balanced(other)
        retracted(other, "later", source=None, uids=("later0", "later1", "later2"))
        assert lake(other) == before


@pytest.mark.slow
def test_two_backfills_and_ingest_side_by_side_are_safe(home):
    folder, org_id = home.stores.home, home.org_id
    sources = {"r1": identity(home, "a.csv"), "r2": identity(home, "b.csv")}

    def correct(name):
        with open_home(folder, org_id) as mine:
            organization = mine.stores.organization(org_id)
            for _ in range(2):
                retraction_of = retraction(mine, name, source=sources[name])
                backfill.start(organization, retraction_of)
                backfill.restart(organization, name, "ann")
                backfill.apply(organization, name, "ann")
                backfill.revert(organization, name, "ann")
            backfill.restart(organization, name, "ann")
            backfill.apply(organization, name, "ann")

    def ingest():
        with open_home(folder, org_id) as mine:
            for number in range(10):
                mine.ingest(f"more-{number}.csv", HEADER + csv_row(f"more{number}"))

    with ThreadPoolExecutor(3) as pool:
        for each in [pool.submit(correct, "r1"), pool.submit(correct, "r2"), pool.submit(ingest)]:
            each.result()

    assert [uid for uid, *_ in home.uids()] == [f"more{number}" for number in range(10)]
    assert len(home.measurements()) == 10
    balanced(home)


def test_nobody_else_works_on_the_same_one(home):
    with (
        lock_backfill(home.organization, "r1"),
        open_home(home.stores.home, home.org_id) as other,
        pytest.raises(Busy, match="another process works on it"),
    ):
        backfill.start(other.organization, retraction(other))


# -- rejected rows of what is withdrawn --------------------------------------------------------


def states(home, **filters):
    """The states of rejected rows by id."""
    wanted = RejectedFilter(**{"status": None} | filters)
    return {str(row.place): row.status for row in list_rejected(home.organization, wanted, 100)}


def waiting(home):
    """What everybody counts who counts rejected rows that wait."""
    organization = home.stores.find_organization(home.org_id)
    reviewed = review_bills(home.organization, Month(2026, 9))
    rows = [each.detail for each in reviewed if each.kind is ReviewKind.REJECTED_ROWS]
    return status(organization).rejected, rows


@pytest.mark.long
def test_rejected_rows_of_a_withdrawn_file_wait_for_nobody_and_a_revert_opens_them_again(home):
    before = waiting(home)
    assert before == ({"InvalidNumber": 1}, ["1 rejected row waits to be mended"])
    [row] = states(home)

    assert retracted(home).summary["rejectedRowsWithdrawn"] == 1

    assert states(home) == {row: "withdrawn"}
    assert waiting(home) == ({}, [])
    assert requeue(home.organization, RejectedFilter(source="a.csv")).receipts == []
    shown = show_rejected(home.organization, row)
    assert [each["backfill"] for each in shown["withdrawnBy"]] == ["r1"]
    backfill.revert(home.organization, "r1", "bob")
    assert states(home) == {row: "open"}
    assert waiting(home) == before
    balanced(home)


@pytest.mark.long
def test_a_withdrawn_row_comes_in_if_somebody_names_it(home):
    retracted(home)
    [row] = states(home)

    edit = Edit(row, json.dumps(wire_row("a3", 5)), "here")
    done = requeue_edited(home.organization, [edit]).to_wire()

    assert (done["accepted"], done["settled"]) == (1, 0)
    assert states(home) == {row: "requeued"}
    balanced(home)


@pytest.mark.slow
def test_rows_of_a_file_that_is_delivered_again_wait_again(home):
    retracted(home)
    home.ingest("a.csv", DATA)
    [row] = states(home)

    assert states(home) == {row: "open"}
    # The attempt that is withdrawn is not the one that counts.
    backfill.start(home.organization, retraction(home, "r2"))
    backfill.apply(home.organization, "r2", "ann")
    assert states(home) == {row: "withdrawn"}
    backfill.revert(home.organization, "r2", "ann")
    assert states(home) == {row: "open"}


@pytest.mark.long
def test_a_file_of_which_nothing_came_in_can_be_withdrawn(home):
    home.ingest("bad.csv", HEADER + csv_row("x1", "x") + csv_row("x2", "y"))
    wrong = {"source": identity(home, "bad.csv")}

    found = retracted(home, "r9", **wrong)

    assert (found.summary["measurementsGone"], found.summary["rejectedRowsWithdrawn"]) == (0, 2)
    assert set(states(home, source="bad.csv").values()) == {"withdrawn"}
    assert waiting(home)[0] == {"InvalidNumber": 1}
    with pytest.raises(Conflict, match="withdrawn already, by backfill 'r9'"):
        retracted(home, "again", **wrong)
    [shown] = show_receipts(home.organization, wrong["source"])
    assert [(each["backfill"], each["measurements"]) for each in shown["retracted"]] == [("r9", 0)]
    backfill.revert(home.organization, "r9", "ann")
    assert set(states(home, source="bad.csv").values()) == {"open"}


@pytest.mark.slow
def test_chosen_measurements_leave_the_rejected_rows_of_their_file_open(home):
    [row] = states(home)
    retracted(home, source=None, uids=("a1", "a2"))
    assert states(home) == {row: "open"}


@pytest.mark.slow
def test_a_row_that_was_mended_is_withdrawn_with_the_source_that_brought_it_in(home):
    [row] = states(home)
    requeue_edited(home.organization, [Edit(row, json.dumps(wire_row("a3", 5)), "here")])
    [[name]] = home.query("SELECT name FROM lake.source WHERE name LIKE 'requeue-%'")

    retracted(home, source=identity(home, name))

    assert states(home) == {row: "withdrawn"}
    shown = show_rejected(home.organization, row)
    assert [each["measurements"] for each in shown["withdrawnBy"]] == [1]
    backfill.revert(home.organization, "r1", "ann")
    assert states(home) == {row: "requeued"}
    # Withdrawn once more, and its file delivered again: the row is rejected as it was at first.
    backfill.restart(home.organization, "r1", "ann")
    backfill.apply(home.organization, "r1", "ann")
    home.ingest("a.csv", DATA)
    assert states(home) == {row: "open"}


@pytest.mark.slow
def test_a_withdrawal_while_rows_are_being_requeued_keeps_them_out(home, monkeypatch):
    backfill.start(home.organization, retraction(home))
    steps = []

    def hook(name):
        steps.append(name)
        if name == "requeue.written" and steps.count(name) == 1:
            backfill.apply(home.organization, "r1", "ann")

    monkeypatch.setattr(failpoint, "hook", hook)
    done = requeue(home.organization, RejectedFilter()).to_wire()

    assert (done["received"], done["settled"]) == (0, 1)
    assert list(states(home).values()) == ["withdrawn"]


@pytest.mark.long
def test_a_home_of_an_older_version_knows_what_was_withdrawn(home):
    retracted(home)
    lake_ = home.organization.lake
    with lake_.lock(), lake_.transaction() as connection:
        connection.execute("DROP TABLE lake.withdrawn_source")
        connection.execute("UPDATE lake.retraction SET attempt = NULL")
    path = home.stores.home
    home.stores.close()

    with open_home(path, home.org_id) as again:
        assert list(states(again).values()) == ["withdrawn"]
        [shown] = show_receipts(again.organization, identity(again))
        assert [each["measurements"] for each in shown["retracted"]] == [2]


# -- receipts ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_file_that_was_delivered_again_is_not_withdrawn(home):
    """Whatever the clocks say: all of it happens within one instant."""
    retracted(home)
    home.ingest("a.csv", DATA)

    again, first = sorted(
        show_receipts(home.organization, identity(home)), key=lambda each: -each["attempt"]
    )

    assert [(each["backfill"], each["measurements"]) for each in first["retracted"]] == [("r1", 2)]
    assert again["retracted"] == []
    [seen] = uid_receipts(home.organization, ["a1"])
    assert (seen["status"], seen["attempt"]) == ("accepted", 2)


@pytest.mark.slow
def test_each_attempt_tells_what_of_its_own_rows_is_withdrawn(home):
    configure(home.organization, meters=[])
    more = HEADER + csv_row("c1", 1) + csv_row("c2", 2, meter="later")
    home.ingest("c.csv", more)
    configure(home.organization, meters=[LATER])
    home.clock.advance(seconds=1)
    home.ingest("c.csv", more)

    retracted(home, source=identity(home, "c.csv"))

    found = show_receipts(home.organization, identity(home, "c.csv"))
    counts = {
        each["attempt"]: [mark["measurements"] for mark in each["retracted"]] for each in found
    }
    assert counts == {1: [1], 2: [1]}
