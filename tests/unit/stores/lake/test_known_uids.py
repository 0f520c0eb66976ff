"""The cache of known uids: never misses one, whatever became of its files."""

from unittest.mock import patch

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.stores.lake import known_uids
from meterlake.stores.lake.known_uids import KnownUids, StagedHashes
from tests.homes import HEADER, a_home, csv_row


def hashes(*values: int) -> np.ndarray:
    return np.array(sorted(values), np.uint64)


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as home:
        yield home


def known(home) -> KnownUids:
    lake = home.organization.lake
    cache = KnownUids(lake.cache)
    with lake.reader() as connection:
        cache.refresh(connection, lake.snapshot())
    return cache


def stored(home) -> np.ndarray:
    return hashes(*(row[1] for row in home.uids()))


def files(home) -> list[str]:
    return sorted(path.name for path in (home.organization.lake.cache / "uids").iterdir())


@pytest.mark.long
def test_what_is_stored_is_known_and_nothing_else_here(home):
    home.ingest("a.csv", HEADER + csv_row("u1") + csv_row("u2"))

    found = known(home).probe(np.append(hashes(5), stored(home)))

    assert found.tolist() == [False, True, True]


@pytest.mark.long
@given(
    knowns=st.lists(st.sets(st.integers(0, 40), max_size=20), max_size=3),
    wanted=st.lists(st.integers(0, 40), max_size=30).map(sorted),
)
def test_however_many_are_looked_up_the_answers_are_those_of_a_set(
    tmp_path_factory, knowns, wanted
):
    folder = tmp_path_factory.mktemp("runs")
    cache = KnownUids(folder)
    cache.folder.mkdir()
    for number, values in enumerate(knowns):
        hashes(*sorted(values)).tofile(cache.folder / f"{number}-{number}.u64")
    expected = [each in set().union(*knowns) for each in wanted]

    for few, rows in ((1 << 16, 1 << 22), (0, 7)):
        with patch.multiple(known_uids, _FEW=few, _READ_ROWS=rows):
            assert cache.probe(hashes(*wanted)).tolist() == expected


def test_an_empty_lake_knows_nothing(home):
    assert known(home).probe(hashes(0, 1, 2**64 - 1)).tolist() == [False] * 3


@pytest.mark.long
@pytest.mark.parametrize("loss", ["all", "newest", "oldest", "half a file's name"])
def test_a_cache_that_was_lost_is_built_again(home, loss):
    for n in range(5):
        home.ingest(f"{n}.csv", HEADER + "".join(csv_row(f"u{n}-{k}") for k in range(40 >> n)))
    folder = home.organization.lake.cache / "uids"
    runs = sorted(folder.iterdir(), key=lambda path: int(path.name.split("-")[0]))
    lost = {"all": runs, "newest": runs[-1:], "oldest": runs[:1], "half a file's name": []}[loss]
    for path in lost:
        path.unlink()
    (folder / "7-.u64").write_bytes(b"x" * 8)

    assert known(home).probe(stored(home)).all()
    assert home.ingest("again.csv", HEADER + csv_row("u0-1") + csv_row("u4-0")).repeats == 2


@pytest.mark.long
def test_runs_are_merged_so_that_there_are_few(home):
    for n in range(20):
        home.ingest(f"{n}.csv", HEADER + csv_row(f"u{n}"))

    assert len(files(home)) <= 6
    assert known(home).probe(stored(home)).all()
    assert len(stored(home)) == 20


def test_a_merge_that_died_before_it_cleaned_up_does_no_harm(home):
    folder = home.organization.lake.cache
    cache = KnownUids(folder)
    known(home)
    last = int(files(home)[-1].split("-")[1].removesuffix(".u64"))
    for name, values in (
        (f"{last + 1}-{last + 1}", hashes(1, 2)),
        (f"{last + 2}-{last + 2}", hashes(3)),
        (f"{last + 1}-{last + 2}", hashes(1, 2, 3)),
    ):
        values.tofile(folder / "uids" / f"{name}.u64")

    assert cache.probe(hashes(1, 2, 3, 4)).tolist() == [True, True, True, False]


def test_a_lake_that_was_set_back_makes_the_cache_forget(home):
    home.ingest("a.csv", HEADER + csv_row("u1"))
    folder = home.organization.lake.cache / "uids"
    for path in folder.iterdir():
        path.unlink()
    hashes(5).tofile(folder / "0-999999.u64")

    assert known(home).probe(np.append(hashes(5), stored(home))).tolist() == [False, True]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 20), max_size=12), max_size=6),
    st.lists(st.integers(0, 20), max_size=6),
)
def test_a_probe_finds_exactly_what_the_runs_hold(tmp_path_factory, runs, asked):
    folder = tmp_path_factory.mktemp("cache")
    cache = KnownUids(folder)
    (folder / "uids").mkdir()
    for number, values in enumerate(runs):
        cache.add_commit(number - 1, number, [hashes(*values)])

    everything = {value for values in runs for value in values}
    probe = hashes(*asked, *everything)
    assert cache.probe(probe).tolist() == [int(value) in everything for value in probe]


@pytest.mark.long
@given(
    batches=st.lists(st.lists(st.integers(0, 2**64 - 1), max_size=20), max_size=4),
    count=st.integers(1, 300),
)
def test_hashes_that_are_divided_come_back_all_in_order(tmp_path_factory, batches, count):
    folder = tmp_path_factory.mktemp("cache") / "parts"
    given_hashes = [np.array(each, np.uint64) for each in batches]

    parts = list(known_uids._sorted_parts(given_hashes, count, folder))

    assert len(parts) == count
    assert np.concatenate(parts).tolist() == sorted(value for each in batches for value in each)
    assert not folder.exists()


def test_a_long_history_is_built_again_range_by_range(home):
    home.ingest("a.csv", HEADER + "".join(csv_row(f"u{n}") for n in range(50)))
    left = home.organization.lake.cache / "uids" / "parts" / "7"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"of one that was killed")
    for path in left.parents[1].glob("*.u64"):
        path.unlink()

    with patch.multiple(known_uids, _RANGE_ROWS=7):
        cache = known(home)

    assert cache.probe(np.append(hashes(5), stored(home))).tolist() == [False] + [True] * 50
    assert [name.endswith(".u64") for name in files(home)] == [True]


def test_the_ranges_of_a_staged_file_are_all_its_hashes_in_order(tmp_path):
    values = [0, 2**64 - 1, 2**63, 2**63 - 1, 7, 7]
    path = tmp_path / "rows.parquet"
    listed = ", ".join(f"({value}::UBIGINT)" for value in values)
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM (VALUES {listed}) v(uid_hash)) TO '{path}' (FORMAT parquet)"
        )

    # As many rows as this are worked through in four ranges.
    ranges = list(StagedHashes([path], 4 << 24))

    assert len(ranges) == 4
    assert np.concatenate(ranges).tolist() == sorted(values)
