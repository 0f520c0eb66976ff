"""A lake in shards stores, rejects and counts what a lake in one piece does, whatever happens."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.errors import Busy
from meterlake.model.values import failpoint
from meterlake.model.values.period import Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.ingest import commit as commits
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.maintenance.move_lake import shard_lake
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.stores.lake.lake import Lake
from tests.databases import need_folder
from tests.homes import HEADER, Home, a_home, csv_row, open_home

SEPTEMBER = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
STEPS = (
    *("shards.learned", "shards.compared", "shards.added", "ingest.staged"),
    *("commit.locked", "lake.before_commit", "lake.after_commit", "commit.done"),
)
CHANGES = ("shards.built_one", "shards.built", "shards.changed", "lake.before_commit")
ROWS = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 2)), min_size=1, max_size=5)
ACTS = st.one_of(
    st.tuples(st.just("ingest"), ROWS),
    st.tuples(st.just("ingest"), ROWS),
    st.tuples(st.just("fail"), ROWS, st.sampled_from(STEPS), st.integers(1, 3)),
    st.tuples(st.just("race"), ROWS, ROWS),
    st.tuples(st.just("shard"), st.integers(1, 5)),
    st.tuples(st.just("half shard"), st.integers(1, 5), st.sampled_from(CHANGES)),
    st.tuples(st.just("lose the index")),
)


class _Dead(Exception):
    """A step at which somebody stops."""


@contextmanager
def at_step(step, act, time=1) -> Iterator[list[str]]:
    """Do something when a step is met for the n-th time; which steps were met."""
    met: list[str] = []

    def hook(name: str) -> None:
        met.append(name)
        if name == step and met.count(step) == time:
            act()

    with patch.object(failpoint, "hook", hook):
        yield met


def fail() -> None:
    raise _Dead


@dataclass
class Expected:
    """A lake as a dictionary."""

    stored: dict[str, int] = field(default_factory=dict)

    def ingest(self, rows) -> tuple[int, int, int]:
        """How many rows of a source are accepted, repeats and contradictions."""
        counts = [0, 0, 0]
        for uid, value in rows:
            known = self.stored.setdefault(uid, value) if uid in self.stored else None
            self.stored.setdefault(uid, value)
            counts[0 if known is None else 1 if known == value else 2] += 1
        return tuple(counts)


class World:
    """A home, another process that has it open, and what it should hold."""

    def __init__(self, home: Home, other: Home) -> None:
        self.home, self.other = home, other
        self.expected = Expected()
        self.number = 0

    def rows(self, rows):
        """Rows with one that no other source has."""
        self.number += 1
        return [*((f"u{uid}", value) for uid, value in rows), (f"own{self.number}", 1)]

    def put(self, home: Home, rows, delivery=None):
        receipt = home.ingest(f"{rows[-1][0]}.csv", text(rows), delivery=delivery)
        return receipt.accepted, receipt.repeats, receipt.rejected

    def do(self, act, *details) -> None:
        getattr(self, act.replace(" ", "_"))(*details)

    def ingest(self, rows) -> None:
        rows = self.rows(rows)
        assert self.put(self.home, rows) == self.expected.ingest(rows)

    def fail(self, rows, step, time) -> None:
        """Stop at a step; whoever comes next delivers it again."""
        rows = self.rows(rows)
        with at_step(step, fail, time):
            try:
                self.put(self.home, rows, "again")
            except _Dead:
                self.home.organization.lake.close_connections()
        expected = self.expected.ingest(rows)
        assert self.put(self.other, rows, "again") == expected
        assert self.put(self.home, rows, "again") == expected

    def race(self, rows, others) -> None:
        """Another process commits between the look at the shards and the lock."""
        rows, others = self.rows(rows), self.rows(others)
        counts = {}

        def overtake() -> None:
            counts["others"] = self.put(self.other, others)

        with at_step("shards.compared", overtake):
            counts["rows"] = self.put(self.home, rows)
        for name, what in (("others", others), ("rows", rows)):
            if name in counts:
                assert counts[name] == self.expected.ingest(what)

    def shard(self, count) -> None:
        done = shard_lake(self.home.organization, count)
        assert (done.shards, done.uids) == (count, len(self.expected.stored))

    def half_shard(self, count, step) -> None:
        with at_step(step, fail):
            try:
                shard_lake(self.home.organization, count)
            except _Dead:
                self.home.organization.lake.close_connections()

    def lose_the_index(self) -> None:
        cache = self.home.organization.lake.cache
        for folder in cache.glob("uid*"):
            shutil.rmtree(folder)

    def check(self) -> None:
        self.home.check_rows()
        stored = {
            fields["uid"]: int(float(fields["measure.gb"]))
            for _, pairs in self.home.measurements()
            for fields in [dict(pairs)]
        }
        assert stored == self.expected.stored
        assert check_reconciliation(self.home.organization).balanced


def text(rows) -> str:
    return HEADER + "".join(csv_row(uid, value) for uid, value in rows)


@pytest.fixture(scope="module")
def world_of(tmp_path_factory):
    """A fresh world for each example of a law."""

    @contextmanager
    def make() -> Iterator[World]:
        with (
            a_home(tmp_path_factory.mktemp("shards")) as home,
            open_home(home.stores.home, home.org_id) as other,
            # A process knows at once what another one changed.
            patch("meterlake.stores.lake.lake._SHARDS_KNOWN_S", 0.0),
        ):
            yield World(home, other)

    return make


def hold(world_of, first, acts) -> None:
    with world_of() as world:
        world.shard(first)
        for act in acts:
            world.do(*act)
        world.check()


@pytest.mark.slow
def test_whatever_happens_to_shards_they_store_and_reject_what_a_dictionary_does(world_of):
    """One of the stories of the law."""
    acts = [
        ("fail", [(0, 1), (0, 2), (1, 1)], "shards.added", 2),
        ("half shard", 5, "shards.built"),
        ("race", [(1, 2), (2, 1)], [(2, 1), (3, 1)]),
        ("lose the index",),
        ("ingest", [(3, 2), (0, 1), (4, 1)]),
    ]
    hold(world_of, 3, acts)


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(first=st.integers(1, 5), acts=st.lists(ACTS, min_size=3, max_size=7))
def test_shards_always_store_and_reject_what_a_dictionary_does(world_of, first, acts):
    hold(world_of, first, acts)


@pytest.fixture
def world(world_of):
    with world_of() as world:
        world.shard(3)
        yield world


@pytest.mark.long
def test_two_writers_that_looked_at_the_same_time_both_commit(world):
    """Neither has what the other brings: nothing is compared again under the lock."""
    with patch.object(commits, "_suspects", side_effect=commits._suspects) as compared:
        world.race([(1, 1)], [(2, 1)])
    assert compared.call_count == 2
    world.check()


def test_two_writers_of_the_same_uids_commit_them_once(world):
    """The second one finds under the lock what the first one brought, and compares anew."""
    with patch.object(commits, "_suspects", side_effect=commits._suspects) as compared:
        world.race([(1, 1), (2, 1), (2, 2)], [(2, 2), (1, 1)])
    assert compared.call_count == 3
    world.check()


@pytest.mark.long
def test_uids_that_are_withdrawn_after_the_look_are_free(world):
    """A source that repeats them brings them again."""
    world.ingest([(1, 1), (2, 1)])
    home, rows = world.home, world.rows([(1, 1), (3, 1)])
    organization = world.other.stores.organization(home.org_id)
    [[identity]] = home.query("SELECT identity FROM lake.source")

    def retract() -> None:
        wanted = BackfillSpec(Mode.RETRACT, source=identity, reason="wrong")
        backfill.start(organization, Order(wanted, "ann", "r"))
        backfill.apply(organization, "r", "ann")
        world.expected.stored.clear()

    with at_step("shards.compared", retract):
        counts = world.put(home, rows)

    assert counts == (3, 0, 0) == world.expected.ingest(rows)
    world.check()


def test_what_a_catalog_lost_that_was_set_back_after_the_look_is_no_repeat(world, tmp_path):
    """Somebody restores a backup of it while a source waits for the lock."""
    need_folder()
    world.ingest([(1, 1)])
    lake = world.home.organization.lake
    backup = tmp_path / "backup"
    copy_catalog(world, lake.catalog.folder, backup)
    lost = world.rows([(2, 1)])
    assert world.put(world.home, lost) == (2, 0, 0)

    with at_step("commit.locked", lambda: copy_catalog(world, backup, lake.catalog.folder)):
        counts = world.put(world.home, again := world.rows([(1, 1), (2, 1)]))

    assert counts == (2, 1, 0) == world.expected.ingest(again)
    world.check()


def copy_catalog(world, source, target) -> None:
    """Copy a catalog that nobody has open, in place of what is there."""
    for home in (world.home, world.other):
        home.stores.lake(world.home.org_id).close_connections()
    target.mkdir(exist_ok=True)
    for path in target.glob("catalog.sqlite*"):
        path.unlink()
    for path in source.glob("catalog.sqlite*"):
        shutil.copy(path, target)


@pytest.mark.slow
def test_a_snapshot_that_expired_after_the_look_does_no_harm(world):
    organization = world.other.stores.organization(world.home.org_id)
    world.ingest([(1, 1)])
    rows, others = world.rows([(1, 2), (2, 1)]), world.rows([(2, 1)])
    expected = {}

    def overtake() -> None:
        for each in (others, world.rows([(3, 1)])):
            assert world.put(world.other, each) == world.expected.ingest(each)
        with organization.lake.lock():
            pass
        maintain(organization, snapshots_for=timedelta(0))

    with at_step("shards.compared", overtake):
        expected["rows"] = world.put(world.home, rows)
    assert expected["rows"] == world.expected.ingest(rows)
    world.check()


@pytest.mark.long
def test_nobody_commits_who_lost_the_lock_of_the_lake(world):
    """The lock of a shard guards its index alone; whoever commits needs that of the lake."""
    busy = Busy("lake", "another process writes to it")
    before = world.home.uids()
    with patch.object(Lake, "lock", side_effect=busy), pytest.raises(Busy):
        world.put(world.home, world.rows([(1, 1)]))
    assert world.home.uids() == before


def test_a_lake_in_one_piece_is_compared_under_the_lock_alone(world_of):
    with world_of() as world, at_step("", fail) as met:
        world.ingest([(1, 1), (1, 1)])
    assert not [step for step in met if step.startswith("shards.")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("acts", "last"),
    [
        ((backfill.apply,), (1, 1, 1)),
        pytest.param((backfill.apply, backfill.revert), (1, 0, 2), marks=pytest.mark.slow),
    ],
)
def test_backfills_of_a_lake_in_shards_leave_what_those_of_a_whole_one_do(world_of, acts, last):
    ends = []
    for count in (1, 4):
        with world_of() as world:
            world.shard(count)
            world.ingest([(1, 1), (2, 2)])
            world.ingest([(3, 1), (1, 2)])
            path = world.home.stores.home / "new.csv"
            path.write_text(text([("u1", 7), ("n1", 1), ("n1", 1)]))
            spec = BackfillSpec(Mode.REPLACE, window=SEPTEMBER, files=("new.csv",))
            backfill.start(world.home.organization, Order(spec, "ann", "b", [path]))
            for act in acts:
                act(world.home.organization, "b", "ann")
                world.home.check_rows()
            ends.append((world.home.measurements(), world.home.uids()))
            # What was taken out is free, what came in is known.
            assert world.put(world.home, [("u2", 9), ("u1", 7), ("n1", 2)]) == last
            world.home.check_rows()
    assert strip(ends[0]) == strip(ends[1])


def strip(end):
    """Without the ids of meters, which differ from home to home."""
    measurements, uids = end
    return sorted(fields for _, fields in measurements), [row[:2] for row in uids]
