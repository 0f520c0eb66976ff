"""Replace: new files take the place of a window's measurements, in one commit, and back again."""

import shutil
from datetime import UTC, datetime

import pytest

from meterlake.model.errors import Conflict, Invalid, UnreadableSource
from meterlake.model.values.period import Period
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.ingest.rejected_rows import list_rejected
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.pipeline.rejected.requeue import requeue
from meterlake.stores.lake.rejected import RejectedFilter
from tests.homes import EGRESS, HEADER, configure, csv_row
from tests.integration.pipeline.backfill.test_retract import SUM

SEPTEMBER = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
OLD = HEADER + csv_row("a1", 1) + csv_row("a2", 2, ts="2026-08-31T12:00:00Z") + csv_row("a3", 3)
# One is corrected, one is left out, one is new, one contradicts what stays, one repeats that.
NEW = HEADER + csv_row("a1", 10) + csv_row("n1", 5, account="bolt")
OTHERS = csv_row("a2", 7) + csv_row("bad", "x") + csv_row("n1", 5, account="bolt")


def prepare(home):
    configure(home.organization, aggregations=[SUM])
    home.ingest("old.csv", OLD)


@pytest.fixture
def home(copies):
    with copies(prepare) as home:
        yield home


def start(home, *texts, id="p1", **changes):
    """Stage a replacement; the files have the same names every time."""
    files = []
    for number, text in enumerate(texts):
        files.append(home.stores.home / f"new-{number}.csv")
        files[-1].write_text(text)
    names = tuple(path.name for path in files)
    wanted = BackfillSpec(Mode.REPLACE, **{"window": SEPTEMBER, "files": names} | changes)
    return backfill.start(home.organization, Order(wanted, "ann", id, files))


def apply(home, id="p1"):
    return backfill.apply(home.organization, id, "ann")


def lake(home):
    return home.measurements(of_source=True), home.uids()


def balanced(home):
    assert check_reconciliation(home.organization).differences == ()


def values(home):
    [table] = [name for name in home.organization.lake.tables() if name.startswith("m_")]
    return {uid: int(gb) for uid, gb in home.query(f'SELECT uid, "measure.gb" FROM lake."{table}"')}


@pytest.mark.slow
def test_new_files_take_the_place_of_the_window(home):
    before = lake(home)

    found = start(home, NEW, HEADER + OTHERS)

    assert lake(home) == before
    assert (found.summary["measurementsGone"], found.summary["measurementsCame"]) == (2, 2)
    names = ("received", "accepted", "repeats", "rejected")
    assert [[each[name] for name in names] for each in found.summary["files"]] == [
        [2, 2, 0, 0],
        [3, 0, 1, 2],
    ]
    assert [(each["row"], each["reason"]) for each in found.summary["rejected"]] == [
        (2, "DuplicateUid"),
        (3, "InvalidNumber"),
    ]
    assert [
        (each["account"], *(x and x["quantity"] for x in (each["before"], each["after"])))
        for each in found.summary["quantities"]
    ] == [("acme", "4", "10"), ("bolt", None, "5")]
    snapshot = home.organization.lake.snapshot()
    applied = apply(home)
    assert applied.applied == home.organization.lake.snapshot() == snapshot + 1
    assert values(home) == {"a1": 10, "a2": 2, "n1": 5}
    assert len(home.rejected()) == 2
    balanced(home)
    assert start(home, NEW, HEADER + OTHERS) == applied
    with pytest.raises(Conflict, match=r"APPLIED, with another content of 'new-0\.csv'"):
        start(home, OLD, HEADER + OTHERS)
    backfill.revert(home.organization, "p1", "bob")
    assert lake(home) == before
    balanced(home)


@pytest.mark.slow
def test_reverted_it_is_as_before_and_applied_again_as_after(home):
    before = lake(home)
    start(home, NEW, HEADER + OTHERS)
    apply(home)
    after = values(home), home.uids()
    # What replaced it is a source like any other.
    again = home.ingest("again.csv", NEW)
    assert (again.attempt, again.accepted, again.repeats) == (2, 0, 2)
    balanced(home)

    found = backfill.revert(home.organization, "p1", "bob")

    assert found.status is BackfillStatus.REVERTED
    assert lake(home) == before
    balanced(home)
    backfill.restart(home.organization, "p1", "ann")
    apply(home)
    assert (values(home), home.uids()) == after
    balanced(home)
    backfill.revert(home.organization, "p1", "bob")
    assert lake(home) == before
    balanced(home)


@pytest.mark.slow
def test_the_same_bytes_replace_themselves(home):
    text = HEADER + csv_row("b1", 1) + csv_row("", 2)
    home.ingest("b.csv", text)
    before = lake(home)

    found = start(home, text, HEADER + csv_row("a1", 1) + csv_row("a3", 3))

    assert found.summary["quantitiesChanged"] == 0
    apply(home)
    assert home.uids() == before[1]
    balanced(home)


@pytest.mark.long
def test_what_is_outside_of_it_is_refused(home):
    acme = next(id_ for id_, code in home.account_codes().items() if code == "acme")

    with pytest.raises(Invalid, match=r"new-0\.csv.*row 2 is of 2026-08-31T12:00:00Z"):
        start(home, OLD.replace(csv_row("a1", 1), ""))
    with pytest.raises(Invalid, match="only measurements of the window and the accounts"):
        start(home, NEW, id="p2", accounts=(acme,))
    with pytest.raises(Invalid, match="a name of its own"):
        start(home, NEW, NEW, id="p3")
    with pytest.raises(UnreadableSource):
        start(home, "", id="p4")
    statuses = {each.id: each.status for each in backfill.history(home.organization)}
    assert set(statuses.values()) == {BackfillStatus.FAILED}
    assert start(home, NEW.replace("bolt", "acme"), accounts=(acme,), id="p2b").status is (
        BackfillStatus.STAGED
    )
    assert list(home.organization.lake.staging.iterdir()) == []


@pytest.mark.slow
def test_started_again_with_another_content_of_the_files_it_is_staged_again(home):
    start(home, NEW)

    found = start(
        home, NEW.replace("acme,a1,2026-09-03T10:00:00Z,10", "acme,a1,2026-09-03T10:00:00Z,99")
    )

    [entry] = [each for each in found.summary["quantities"] if each["account"] == "acme"]
    assert (entry["before"]["quantity"], entry["after"]["quantity"]) == ("4", "99")


@pytest.mark.slow
def test_with_another_content_of_the_files_it_is_applied_only_if_that_was_seen(home):
    start(home, NEW)
    start(home, NEW.replace(",10,", ",99,"))
    apply(home)
    assert values(home)["a1"] == 99
    backfill.revert(home.organization, "p1", "ann")
    with pytest.raises(Conflict, match=r"REVERTED, with another content of 'new-0\.csv'"):
        start(home, NEW)


def test_a_file_that_is_not_there_is_no_failure_of_the_disk(home, tmp_path):
    wanted = BackfillSpec(Mode.REPLACE, window=SEPTEMBER, files=("gone.csv",))

    for path in (tmp_path / "gone.csv", tmp_path):
        with pytest.raises(Invalid, match="a file that is there"):
            backfill.start(home.organization, Order(wanted, "ann", "p1", [path]))


@pytest.mark.slow
def test_apply_is_refused_if_the_files_would_be_calculated_otherwise(home):
    def share(calculation):
        field = {"category": "MEASURE", "code": "share", "name": "Share"}
        derived = [{**field, "calculation": calculation}]
        configure(home.organization, meters=[{**EGRESS, "derivedFields": derived}])

    share("gb * 2")
    start(home, NEW)
    share("gb * 100")

    with pytest.raises(Conflict, match="read with have changed since"):
        apply(home)
    assert values(home) == {"a1": 1, "a2": 2, "a3": 3}
    start(home, NEW)
    apply(home)
    assert values(home) == {"a1": 10, "a2": 2, "n1": 5}


@pytest.mark.slow
def test_new_accounts_come_with_it(home):
    start(home, HEADER + csv_row("n1", 5, account="newcomer"))
    assert "newcomer" not in home.account_codes().values()
    apply(home)
    assert "newcomer" in home.account_codes().values()
    assert values(home) == {"a2": 2, "n1": 5}


@pytest.mark.slow
def test_apply_is_refused_if_the_window_or_a_uid_changed_meanwhile(home):
    start(home, NEW)
    home.ingest("more.csv", HEADER + csv_row("c1", 1))
    with pytest.raises(Conflict, match="has changed since"):
        apply(home)
    backfill.restart(home.organization, "p1", "ann")
    home.ingest("august.csv", HEADER + csv_row("n1", 6, ts="2026-08-01T00:00:00Z"))
    shutil.rmtree(home.organization.lake.cache / "uids")
    with pytest.raises(Conflict, match="would come out otherwise"):
        apply(home)
    # What was deleted and came back is known: the cache was built anew meanwhile.
    assert home.ingest("b.csv", HEADER + csv_row("a1", 1)).repeats == 1
    backfill.restart(home.organization, "p1", "ann")
    apply(home)
    assert values(home) == {"a1": 10, "a2": 2, "n1": 6}
    balanced(home)


@pytest.mark.slow
def test_apply_is_refused_if_as_many_of_other_rows_would_be_stored(home):
    august = {"ts": "2026-08-20T12:00:00Z"}
    home.ingest("first.csv", HEADER + csv_row("x1", 1, **august))
    found = start(home, HEADER + csv_row("x1", 2) + csv_row("x2", 3))
    [file] = found.summary["files"]
    assert (file["accepted"], file["rejected"]) == (1, 1)
    wanted = BackfillSpec(Mode.RETRACT, "wrong", uids=("x1",))
    backfill.start(home.organization, Order(wanted, "ann", "r"))
    backfill.apply(home.organization, "r", "ann")
    home.ingest("second.csv", HEADER + csv_row("x2", 1, **august))
    before = lake(home)

    with pytest.raises(Conflict, match="would come out otherwise"):
        apply(home)

    assert lake(home) == before
    start(home, HEADER + csv_row("x1", 2) + csv_row("x2", 3))
    apply(home)
    assert values(home)["x1"] == 2
    balanced(home)


@pytest.mark.long
def test_revert_is_refused_if_the_old_uids_are_taken(home):
    start(home, NEW)
    apply(home)
    home.ingest("c.csv", HEADER + csv_row("a3", 9))

    with pytest.raises(Conflict, match="'a3'"):
        backfill.revert(home.organization, "p1", "ann")


# -- rejected rows of what is replaced, or was -------------------------------------------------


def states(home):
    """The files, lines and states of rejected rows."""
    wanted = RejectedFilter(status=None)
    rows = list_rejected(home.organization, wanted, 100)
    return sorted((row.name, row.row, row.status) for row in rows)


@pytest.mark.long
def test_rejected_rows_of_a_replacement_that_is_reverted_are_withdrawn(home):
    new = HEADER + csv_row("n1", 5) + csv_row("bad", "x")
    start(home, new)
    apply(home)
    assert states(home) == [("new-0.csv", 3, "open")]

    backfill.revert(home.organization, "p1", "bob")

    assert states(home) == [("new-0.csv", 3, "withdrawn")]
    backfill.restart(home.organization, "p1", "ann")
    apply(home)
    assert states(home) == [("new-0.csv", 3, "open")]
    balanced(home)


@pytest.mark.slow
def test_rejected_rows_of_a_file_that_is_replaced_whole_are_withdrawn(home):
    """Those of a file of which something stays wait as before."""
    kept = csv_row("p2", 2, ts="2026-08-31T12:00:00Z")
    home.ingest(
        "part.csv", HEADER + csv_row("p1", 1) + kept + csv_row("p3", 3) + csv_row("p9", "x")
    )
    home.ingest("whole.csv", HEADER + csv_row("w1", 1) + csv_row("w2", "x"))
    before = states(home)
    assert before == [("part.csv", 5, "open"), ("whole.csv", 3, "open")]
    start(home, HEADER + csv_row("w1", 2))

    apply(home)

    assert states(home) == [("part.csv", 5, "open"), ("whole.csv", 3, "withdrawn")]
    backfill.revert(home.organization, "p1", "bob")
    assert states(home) == before


@pytest.mark.slow
def test_a_file_that_replaces_itself_waits_with_its_new_attempt(home):
    text = HEADER + csv_row("n1", 1) + csv_row("n2", "x")
    home.ingest("new-0.csv", text)
    start(home, text)

    apply(home)

    assert states(home) == [("new-0.csv", 3, "open")]
    backfill.revert(home.organization, "p1", "bob")
    # As before: of its first attempt the row waits.
    assert states(home) == [("new-0.csv", 3, "open")]
    assert requeue(home.organization, RejectedFilter()).to_wire()["rejected"] == 1
    balanced(home)
