"""Known uids in shards: whatever their number, they answer as one set does."""

import threading
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.errors import Invalid, Unavailable
from meterlake.stores.lake import known_uids, uid_shards
from meterlake.stores.lake.known_uids import HashRange
from meterlake.stores.lake.uid_shards import (
    SHARDS_MAX,
    UidShards,
    change_shards,
    read_shards,
    uids_since,
)
from tests.homes import HEADER, a_home, csv_row

HASHES = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**63, 2**64 - 1]), max_size=20)


def sorted_hashes(values) -> np.ndarray:
    return np.array(sorted(values), np.uint64)


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as home:
        yield home


def lake_of(home):
    return home.organization.lake


def probed(home, count):
    lake = lake_of(home)
    shards = UidShards(lake.cache, count)
    stored = sorted_hashes(row[1] for row in home.uids())
    with lake.reader() as connection:
        probe = shards.refresh(connection, lake.snapshot())
        return probe(np.append(stored, np.uint64(2**64 - 1))).tolist()


@given(hashes=HASHES.map(sorted_hashes), count=st.integers(1, SHARDS_MAX))
def test_every_hash_is_in_exactly_one_shard(hashes, count):
    parts = [hashes[each.slice(hashes)] for each in HashRange().split(count)]

    assert len(parts) == count
    assert np.concatenate(parts).tolist() == hashes.tolist()
    assert [each.filter(hashes).tolist() for each in HashRange().split(count)] == [
        part.tolist() for part in parts
    ]


@settings(max_examples=25, deadline=None)
@given(commits=st.lists(HASHES, max_size=4), asked=HASHES, count=st.integers(1, 5))
def test_however_many_shards_there_are_they_know_what_was_added(
    tmp_path_factory, commits, asked, count
):
    shards = UidShards(tmp_path_factory.mktemp("cache"), count)
    for number, values in enumerate(commits):
        shards.add_commit(number - 1, number, [sorted_hashes(values)])
    everything = {value for values in commits for value in values}

    found = {int(each) for part in shards.glimpse(1000) for each in part}

    assert found == everything
    assert not set(asked) - everything & found


@pytest.mark.long
def test_stored_uids_are_known_whatever_became_of_a_shard(home):
    for number in range(4):
        home.ingest(f"{number}.csv", HEADER + "".join(csv_row(f"u{number}-{k}") for k in range(9)))
    assert probed(home, 3) == [True] * 36 + [False]

    folder = lake_of(home).cache / "uid-shards-3"
    for path in (folder / "1").rglob("*.u64"):
        path.unlink()
    for path in (folder / "2").rglob("*.u64"):
        path.rename(path.with_name("0-999999.u64"))

    assert probed(home, 3) == [True] * 36 + [False]


@pytest.mark.long
def test_what_others_have_looked_up_later_is_not_thrown_away(home):
    """Who asks about an older snapshot finds more than he needs, and leaves it there."""
    lake, shards = lake_of(home), UidShards(lake_of(home).cache, 2)
    home.ingest("a.csv", HEADER + csv_row("u1"))
    older = lake.snapshot()
    home.ingest("b.csv", HEADER + csv_row("u2"))
    with lake.reader() as connection:
        shards.build(connection, lake.snapshot())
        before = sorted(path.name for path in shards.folder.rglob("*.u64"))
        stored = sorted_hashes(row[1] for row in home.uids())

        assert shards.refresh(connection, older)(stored).tolist() == [True, True]
    assert sorted(path.name for path in shards.folder.rglob("*.u64")) == before


@pytest.mark.long
def test_many_threads_may_ask_at_once(home, monkeypatch):
    monkeypatch.setattr(uid_shards, "_FEW", 0)
    home.ingest("a.csv", HEADER + "".join(csv_row(f"u{k}") for k in range(50)))
    lake, stored = lake_of(home), sorted_hashes(row[1] for row in home.uids())
    snapshot, answers = lake.snapshot(), []

    def ask():
        with closing(lake.connect()) as connection:
            probe = UidShards(lake.cache, 4).refresh(connection, snapshot)
            answers.append(probe(np.append(stored, np.uint64(2**64 - 1))).tolist())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert answers == [[True] * 50 + [False]] * 4


@pytest.mark.long
def test_a_commit_that_others_overtook_is_read_from_the_lake(home):
    lake, shards = lake_of(home), UidShards(lake_of(home).cache, 2)
    with lake.reader() as connection:
        shards.build(connection, lake.snapshot())
    covered = lake.snapshot()
    home.ingest("a.csv", HEADER + csv_row("u1"))
    home.ingest("b.csv", HEADER + csv_row("u2"))

    shards.add_commit(covered + 1, covered + 2, [sorted_hashes([5])])

    assert probed(home, 2) == [True, True, False]


@pytest.mark.long
def test_what_came_and_what_left_since_a_snapshot(home):
    lake = lake_of(home)
    start = lake.snapshot()
    home.ingest("a.csv", HEADER + csv_row("u1") + csv_row("u2"))
    came = lake.snapshot()
    with lake.lock(), lake.transaction() as transaction:
        transaction.execute("DELETE FROM lake.uid_index WHERE uid = 'u1'")
    with lake.reader() as connection:
        found = uids_since(connection, start, came)
        assert found is not None
        assert len(found) == 2
        assert uids_since(connection, came, lake.snapshot()) is None
        assert uids_since(connection, start, lake.snapshot() + 5) is None


@pytest.mark.long
def test_the_number_of_shards_is_in_the_catalog_and_changes_as_often_as_one_likes(home):
    lake = lake_of(home)
    home.ingest("a.csv", HEADER + "".join(csv_row(f"u{k}") for k in range(20)))
    first = lake.snapshot()
    for count in (4, 4, 2, 1, 1):
        rows = change_shards(lake, count)
        assert len(rows) == count
        assert sum(rows) == 20
        assert lake.shards == count
        with lake.reader() as connection:
            assert read_shards(connection, lake.catalog.schema) == count
        filled = {path.relative_to(lake.cache).parts[0] for path in lake.cache.rglob("*.u64")}
        assert filled == {"uids" if count == 1 else f"uid-shards-{count}"}
    # Only a change is a snapshot.
    assert lake.snapshot() == first + 3


@pytest.mark.parametrize("count", [0, -1, SHARDS_MAX + 1])
def test_a_number_that_no_lake_can_have_is_refused(home, count):
    before = lake_of(home).snapshot()
    with pytest.raises(Invalid, match=f"a number from 1 to {SHARDS_MAX}"):
        change_shards(lake_of(home), count)
    assert lake_of(home).snapshot() == before


@pytest.mark.long
def test_an_index_that_lacks_a_uid_is_not_taken(home):
    lake = lake_of(home)
    home.ingest("a.csv", HEADER + "".join(csv_row(f"u{k}") for k in range(20)))
    change_shards(lake, 2)
    for path in (lake.cache / "uid-shards-2").rglob("*.u64"):
        path.write_bytes(path.read_bytes()[8:])

    with pytest.raises(Unavailable, match="lacks uids"):
        change_shards(lake, 2)
    assert sum(change_shards(lake, 2)) == 20


def test_another_comment_on_the_table_means_one_shard(home):
    lake = lake_of(home)
    with lake.lock(), lake.transaction() as transaction:
        transaction.execute("COMMENT ON TABLE lake.uid_index IS 'Of all measurements'")
    lake.forget_shards()
    assert lake.shards == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_history_of_many_parts_is_known_in_each_shard(home, monkeypatch, count):
    home.ingest("a.csv", HEADER + "".join(csv_row(f"u{k}") for k in range(80)))
    monkeypatch.setattr(known_uids, "_RANGE_ROWS", 7)

    assert probed(home, count) == [True] * 80 + [False]
    assert not list(lake_of(home).cache.rglob("parts"))
