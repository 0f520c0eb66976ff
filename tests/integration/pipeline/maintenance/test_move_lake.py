"""Moving lakes: to a bucket and PostgreSQL and back nothing is lost, doubled or changed."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from itertools import count, cycle
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.errors import CannotMove, Conflict, MeterlakeError, Unavailable
from meterlake.model.values import failpoint
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.maintenance.move_lake import move_lakes, plan_move, remove_former
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.pipeline.publish.run import publish
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.home_settings import shared_settings
from meterlake.stores.lake.moves.lake_move import read_record
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.calculations.pins import pinned_snapshots
from tests.bills import price_egress, subscribe, use
from tests.databases import need_folder, new_database
from tests.homes import HEADER, a_home, csv_row, open_home
from tests.laws import examples

NUMBERS = count()
DAY = {8: "2026-08-03T10:00:00Z", 9: "2026-09-03T10:00:00Z"}


def rows(first: int, last: int, month: int = 9, prefix: str = "u") -> str:
    each = (csv_row(f"{prefix}{number}", ts=DAY[month]) for number in range(first, last))
    return HEADER + "".join(each)


def live(home) -> None:
    """Two months, a bill that pins a snapshot, and what comes after it."""
    price_egress(home)
    subscribe(home, "acme", "bolt")
    use(home, ("1", "acme", 40), ("2", "acme", "2.5"), ("3", "bolt", 200))
    home.ingest("august.csv", rows(0, 1500, 8))
    home.ingest("wrong.csv", HEADER + csv_row("x1", gb="zz"))
    bill(home.organization, Month(2026, 9))
    home.ingest("late.csv", rows(0, 4, 9, "late"))
    maintain(home.organization, kept_for=timedelta(days=9))
    home.ingest("after.csv", rows(0, 4, 9, "after"))
    retract(home, "late.csv")
    aggregate(home.organization, Month(2026, 9))
    bill(home.organization, Month(2026, 8))


def retract(home, name: str) -> None:
    [[identity]] = home.query(f"SELECT identity FROM lake.source WHERE name = '{name}'")
    order = Order(BackfillSpec(Mode.RETRACT, source=identity, reason="test"), "ann", uuid4().hex)
    backfill.start(home.organization, order)
    backfill.apply(home.organization, order.id, "ann")


def past(home) -> dict[tuple[int, str], list[tuple[object, ...]]]:
    """All rows of all tables at each snapshot that there is."""
    found = {}
    with home.organization.lake.reader() as reader:
        snapshots = reader.execute("SELECT snapshot_id FROM ducklake_snapshots('lake')").fetchall()
        for [snapshot] in sorted(snapshots):
            for table in sorted(home.organization.lake.tables()):
                with suppress(Exception):  # It came later.
                    query = f'FROM lake."{table}" AT (VERSION => {snapshot})'
                    found[snapshot, table] = sorted(reader.execute(query).fetchall(), key=repr)
    assert len({snapshot for snapshot, _ in found}) > 1
    return found


def newest(home):
    """What is in the lake now."""
    lake = home.organization.lake
    found = (lake.snapshot(), home.measurements(of_source=True), home.ledger())
    lake.close()
    return found


def contents(home):
    """What must be the same wherever the lake is."""
    assert check_reconciliation(home.organization).differences == ()
    lake = home.organization.lake
    found = (lake.snapshot(), home.measurements(of_source=True), home.ledger(), past(home))
    lake.close()
    return found


@pytest.fixture(autouse=True)
def _from_a_folder(request):
    if "lake_location" not in request.fixturenames:
        need_folder()


@pytest.fixture(scope="module")
def bucket(postgresql, s3_lakes):
    """The settings of another place for lakes."""
    return lambda: {
        "lake": f"s3://lakes/moved-{next(NUMBERS)}",
        "catalog": new_database(postgresql, "template_state"),
        "s3_endpoint": s3_lakes.url,
    }


def move(home, changes, **options):
    target = home.stores.settings.model_copy(update=changes)
    home.organization.lake.close()
    return move_lakes(home.stores, target, **options)


@contextmanager
def reopened(home, **changes):
    home.stores.close()
    with open_home(home.stores.home, home.org_id, home.clock, **changes) as again:
        yield again


IN_HOME = {"lake": None, "catalog": None}
REMOVED = {"remove_source": True}


@pytest.mark.slow
def test_a_lake_moves_to_a_bucket_and_back_with_its_whole_history(tmp_path, bucket):
    with a_home(tmp_path) as home:
        live(home)
        published = publish(home.organization).rows
        before, there = contents(home), bucket()
        pinned = pinned_snapshots(home.stores.state, home.org_id)
        planned = plan_move(home.stores, home.stores.settings.model_copy(update=there))

        [moved] = move(home, there, remove_source=True)
        assert moved.contents.sent_files == moved.contents.files > 0
        assert planned[0].to_wire() == moved.to_wire() | {"sent": 0}
        with reopened(home, s3_endpoint=there["s3_endpoint"]) as moved_home:
            organization = moved_home.stores.organization(home.org_id)
            assert contents(moved_home) == before
            assert {snapshot for snapshot, _ in before[3]} >= pinned != set()
            assert publish(organization, whole=True).rows == published
            again = moved_home.ingest("again.csv", rows(0, 1502, 8))
            assert (again.repeats, again.accepted) == (1500, 2)
            assert bill(organization, Month(2026, 9)).bills != []
            before = contents(moved_home)
            move(moved_home, IN_HOME, remove_source=True)
            with reopened(moved_home) as back:
                assert "lake" not in shared_settings(back.stores.settings)
                assert contents(back) == before
                again = back.ingest("more.csv", rows(0, 1503, 8))
                assert (again.repeats, again.accepted) == (1502, 1)
                unchanged = bill(back.stores.organization(home.org_id), Month(2026, 9)).bills
                assert {each.stored for each in unchanged} == {BillOutcome.UNCHANGED}
                back.check_rows()


@pytest.mark.slow
def test_only_the_catalog_may_move(tmp_path, postgresql):
    with a_home(tmp_path) as home:
        home.ingest("a.csv", rows(0, 3))
        before = newest(home)
        [moved] = move(home, {"catalog": new_database(postgresql)}, remove_source=True)

        assert moved.contents.files == 0
        assert not home.organization.lake.catalog.file.exists()
        with reopened(home) as again:
            assert newest(again) == before
            assert again.ingest("b.csv", rows(0, 5)).accepted == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "there already"),
        ({"lake": "s3://lakes/elsewhere"}, "name another database"),
        ({"lake": "/elsewhere", "catalog": "postgresql://u@h/d"}, "stop all processes, move"),
    ],
)
def test_a_target_that_cannot_be_is_refused(tmp_path, changes, message):
    with a_home(tmp_path) as home:
        for act in (plan_move, move_lakes):
            with pytest.raises(CannotMove, match=message):
                act(home.stores, home.stores.settings.model_copy(update=changes))

        assert read_record(home.stores.home) is None
        assert home.ingest("a.csv", rows(0, 3)).accepted == 3


@pytest.mark.slow
def test_a_bucket_that_does_not_exist_is_named(tmp_path, bucket):
    there = bucket()
    with a_home(tmp_path) as home:
        home.ingest("a.csv", rows(0, 3))
        with pytest.raises(
            CannotMove, match=r"moved: no bucket 's3://absent'; create it, or name another one$"
        ):
            move(home, there | {"lake": "s3://absent/lakes"})
        before = newest(home)
        move(home, there)
        with reopened(home, s3_endpoint=there["s3_endpoint"]) as moved:
            assert newest(moved) == before


@pytest.mark.slow
def test_a_catalog_that_is_not_empty_is_refused(tmp_path, postgresql):
    catalog = {"catalog": new_database(postgresql)}
    with a_home(tmp_path) as home:
        home.ingest("a.csv", rows(0, 3))
        move(home, catalog)
        with reopened(home) as moved:
            with pytest.raises(CannotMove, match="already; `meterlake move-lake --remove-source`"):
                move(moved, IN_HOME)
            before = newest(moved)
            assert remove_former(moved.stores) == 0
            with pytest.raises(CannotMove, match="no move has left"):
                remove_former(moved.stores)
            move(moved, IN_HOME, remove_source=True)
            with reopened(moved) as back:
                assert newest(back) == before


@pytest.mark.slow
def test_a_process_with_the_former_settings_writes_nothing_more(tmp_path, postgresql):
    with a_home(tmp_path) as home:
        home.ingest("a.csv", rows(0, 3))
        lake = home.organization.lake
        move(home, {"catalog": new_database(postgresql)})

        with pytest.raises(Unavailable, match="it was moved to the home folder, catalog postgres"):
            home.ingest("b.csv", rows(3, 6))
        with lake.reader() as reader:
            assert reader.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (3,)


@pytest.mark.slow
def test_what_fails_before_the_end_changes_nothing(tmp_path, postgresql, monkeypatch):
    def fail(step: str) -> None:
        if step == "move.retired":
            raise Unavailable("disk", "full")

    with a_home(tmp_path) as home:
        home.ingest("a.csv", rows(0, 3))
        catalog = {"catalog": new_database(postgresql)}
        with monkeypatch.context() as patch:
            patch.setattr(failpoint, "hook", fail)
            with pytest.raises(Unavailable):
                move(home, catalog)

        assert shared_settings(home.stores.settings) == {}
        assert home.ingest("b.csv", rows(3, 6)).accepted == 3
        before = newest(home)
        move(home, catalog)
        with reopened(home) as moved:
            assert newest(moved) == before


def test_settings_of_a_place_without_the_lakes_name_the_command(tmp_path):
    with a_home(tmp_path) as home:
        path = home.stores.home

    for name, value in (("lake", "s3://b/p"), ("catalog", "postgresql://u@h/d")):
        with (
            pytest.raises(Conflict, match=f"`meterlake move-lake --{name} VALUE`"),
            open_home(path, home.org_id, **{name: value}),
        ):
            pass


KILLED = """
import sys
from meterlake.model.values import failpoint
from meterlake.pipeline.maintenance.move_lake import move_lakes
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.killing import die_at

home, step, time, lake, catalog = sys.argv[1:]
failpoint.hook = die_at(step, int(time))
with open_stores(Settings(home=home)) as stores:
    target = stores.settings.model_copy(update={"lake": lake, "catalog": catalog})
    move_lakes(stores, target, remove_source=True)
"""
STEPS = (
    *(("move.begun", 1), ("move.file_sent", 1), ("move.file_sent", 3), ("move.files_copied", 1)),
    *(("move.files_copied", 2), ("move.catalog_made", 1), ("move.rows_inserted", 7)),
    *(("move.rows_copied", 1), ("move.compared", 1), ("move.retired", 1), ("move.switched", 1)),
    *(("move.source_file_removed", 2), ("move.source_removed", 1)),
)


def killed_at(home, step: str, time: int, there) -> None:
    arguments = [str(home.stores.home), step, str(time), there["lake"], there["catalog"]]
    environment = {"PYTHONPATH": "src:.", "METERLAKE_S3_ENDPOINT": there["s3_endpoint"]}
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        check=False,
        env=os.environ | environment,
    )
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.slow
def test_whoever_dies_at_any_step_moves_on_when_it_is_run_again(tmp_path, bucket):
    with a_home(tmp_path) as home:
        live(home)
        before = contents(home)
        home.stores.close()
        for step, time in STEPS:
            there = bucket()
            copied = tmp_path / f"{step}-{time}"
            shutil.copytree(home.stores.home, copied)
            with open_home(copied, home.org_id, s3_endpoint=there["s3_endpoint"]) as first:
                first.stores.close()
                killed_at(first, step, time, there)
            with open_home(copied, home.org_id, s3_endpoint=there["s3_endpoint"]) as again:
                if step != "move.source_removed":
                    sent = [each.contents.sent_files for each in move(again, there, **REMOVED)]
                    assert sent in ([], [0]) or step in {"move.begun", "move.file_sent"}
            with open_home(copied, home.org_id, s3_endpoint=there["s3_endpoint"]) as moved:
                assert moved.stores.settings.lake == there["lake"]
                assert contents(moved) == before
                assert moved.ingest("b.csv", rows(0, 1501, 8)).accepted == 1


class History:
    """Small operations on a home, drawn by Hypothesis."""

    def __init__(self, home) -> None:
        self.home = home
        self.names = count()

    def ingest(self, first: int, last: int, month: int) -> None:
        self.home.ingest(f"{next(self.names)}.csv", rows(first, last, month))

    def reject(self, number: int) -> None:
        text = HEADER + csv_row(f"wrong{number}", gb="zz") + csv_row(f"u{number}", gb=number)
        self.home.ingest(f"{next(self.names)}.csv", text)

    def retract(self, number: int) -> None:
        names = self.home.query(
            "SELECT name FROM lake.source WHERE accepted > 0 GROUP BY name"
            " HAVING count(*) = 1 ORDER BY name"
        )
        if names:
            with suppress(MeterlakeError):  # What was withdrawn before.
                retract(self.home, names[number % len(names)][0])

    def maintain(self, days: int) -> None:
        maintain(self.home.organization, snapshots_for=timedelta(days=days))

    def aggregate(self, month: int) -> None:
        aggregate(self.home.organization, Month(2026, month))


_MONTHS = st.sampled_from(sorted(DAY))
_OPERATIONS = st.one_of(
    st.tuples(st.just("ingest"), st.integers(0, 5), st.sampled_from([6, 9, 1200]), _MONTHS),
    st.tuples(st.just("reject"), st.integers(0, 5)),
    st.tuples(st.just("retract"), st.integers(0, 5)),
    st.tuples(st.just("maintain"), st.sampled_from([0, 9])),
    st.tuples(st.just("aggregate"), _MONTHS),
)


@pytest.mark.slow
@given(st.lists(st.lists(_OPERATIONS, min_size=1, max_size=6), min_size=2, max_size=3))
@settings(max_examples=examples(3))
def test_any_history_reads_the_same_at_each_snapshot_wherever_it_was(
    tmp_path_factory, bucket, histories
):
    with a_home(tmp_path_factory.mktemp("law")) as first, ExitStack() as opened:
        price_egress(first)
        home, places = first, cycle([bucket(), IN_HOME])
        for operations in histories:
            history = History(home)
            history.names = count(next(NUMBERS) * 100)
            for name, *arguments in operations:
                getattr(history, name)(*arguments)
            before, there = contents(home), next(places)
            move(home, there, remove_source=True)
            endpoint = {name: each for name, each in there.items() if name == "s3_endpoint"}
            home = opened.enter_context(reopened(home, **endpoint))
            assert contents(home) == before


@pytest.mark.slow
@pytest.mark.parametrize("lake_location", ["s3", "gcs"], indirect=True)
def test_a_home_that_was_made_in_a_bucket_moves_to_its_folder(tmp_path, lake_location):
    with a_home(tmp_path) as home:
        assert home.stores.settings.lake.startswith({"s3": "s3", "gcs": "gs"}[lake_location])
        live(home)
        before, state = contents(home), home.stores.settings.state
        shutil.rmtree(home.organization.lake_folder)
        move(home, IN_HOME, remove_source=True)
        with reopened(home, state=state) as moved:
            assert contents(moved) == before
            assert moved.ingest("b.csv", rows(0, 1501, 8)).accepted == 1
            moved.check_rows()
