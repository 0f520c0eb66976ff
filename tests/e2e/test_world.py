"""Ingest in a world of other processes, full disks, folders that may not be written, and moves."""

import os
import shutil
import time

import pytest

from tests.e2e.workers import NOBODY, result, start
from tests.homes import HEADER, a_home, csv_row, new_home, open_home
from tests.long_cases import long_after


def rows(first: int, last: int) -> str:
    return HEADER + "".join(csv_row(f"u{n}") for n in range(first, last))


def soon() -> float:
    """When processes that start now are ready for a race."""
    return time.time() + 4


def slow(value):
    """A case that takes its time and differs little from the others."""
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.fixture
def place(tmp_path):
    home = tmp_path / "home"
    return home, new_home(home)


@pytest.mark.slow
def test_two_processes_that_ingest_one_file_at_once_store_it_once(place, tmp_path):
    source = tmp_path / "a.csv"
    source.write_text(rows(0, 5000) + csv_row("x", "NaN"))
    at = soon()

    racers = [start("ingest", *place, at, source) for _ in range(2)]
    found = sorted(result(racer)[0] for racer in racers)

    assert found == [[5001, 0, 5000, 1], [5001, 5000, 0, 1]]
    with open_home(*place) as home:
        home.check()
        assert len(home.measurements()) == 5000


@pytest.mark.slow
def test_processes_with_overlapping_uids_store_each_uid_once(place, tmp_path):
    names = [("a", 0, 3000), ("b", 1000, 4000)]
    for name, first, last in names:
        (tmp_path / f"{name}.csv").write_text(rows(first, last))
    at = soon()

    racers = [start("ingest", *place, at, tmp_path / f"{name}.csv") for name, *_ in names]
    found = sorted(result(racer)[0] for racer in racers)

    assert found == [[3000, 1000, 2000, 0], [3000, 3000, 0, 0]]
    with open_home(*place) as home:
        home.check()


@pytest.mark.slow
def test_two_processes_that_meet_a_damaged_file_at_once_both_say_so(place, tmp_path):
    source = tmp_path / "a.json"
    source.write_text("[{")
    at = soon()

    racers = [start("ingest", *place, at, source, source, source) for _ in range(2)]

    assert [result(racer) for racer in racers] == [[[0, 0, 0, 0]] * 3] * 2
    with open_home(*place) as home:
        assert [attempt for _, attempt, *_ in home.ledger()] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
def test_processes_with_the_same_new_account_make_it_once(place, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text(HEADER + csv_row(name, account="newcomer"))
    at = soon()

    for racer in [start("ingest", *place, at, tmp_path / f"{name}.csv") for name in "ab"]:
        assert result(racer) == [[1, 1, 0, 0]]

    with open_home(*place) as home:
        assert sorted(home.account_codes().values()) == ["acme", "bolt", "newcomer"]
        home.check()


@pytest.mark.slow
def test_of_two_workers_of_a_drop_folder_one_works(place):
    with open_home(*place) as home:
        for n in range(6):
            home.drop(f"{n}.csv", rows(n * 100, n * 100 + 100))

        answers = [result(racer) for racer in [start("work", *place) for _ in range(2)]]

        assert {kind for kind, _ in answers} <= {"done", "Busy"}
        assert sum(sum(told) for kind, told in answers if kind == "done") == 600
        assert list(home.folder.inbox.iterdir()) == list(home.folder.claimed.iterdir()) == []
        home.check()


@pytest.mark.slow
def test_a_reader_beside_a_writer_sees_whole_commits_only(place):
    reader = start("read", *place, 8)
    time.sleep(2)
    with open_home(*place) as home:
        for n in range(12):
            home.ingest(f"{n}.csv", rows(n * 50, n * 50 + 100))
            time.sleep(0.1)

    seen = result(reader)

    assert all(books == index for books, index in seen)
    assert len(seen) > 2


# --- a failing world


@pytest.mark.slow
@pytest.mark.parametrize("limit", [slow(100), slow(3000), 20_000, slow(60_000)])
def test_a_full_disk_stores_nothing_half_and_the_next_run_succeeds(place, limit):
    with open_home(*place) as home:
        home.drop(
            "a.csv",
            rows(0, 4000)
            + csv_row("x", "NaN", account="newcomer")
            + csv_row("y", account="newcomer"),
        )

    kind, told = result(start("work", *place, limit))

    assert kind == "Unavailable", told
    with open_home(*place) as home:
        assert home.measurements() == home.uids() == home.rejected() == home.ledger() == []
        assert [receipt.accepted for receipt in home.work()] == [4001]
        home.check()
        assert list(home.folder.claimed.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can make a folder that a process may not write"
)
@pytest.mark.parametrize(
    "folder",
    [
        "lakes/{org}/data",
        *map(slow, ("drop/sample/inbox", "drop/sample", "lakes/{org}/staging", "lakes/{org}")),
    ],
)
def test_a_folder_that_may_not_be_written_is_told_and_the_next_run_succeeds(
    tmp_path_factory, folder
):
    # Not below pytest's own folder, which nobody may enter.
    place = (
        tmp_path_factory.getbasetemp().parent.parent
        / f"meterlake-{os.getpid()}-{abs(hash(folder))}"
    )
    try:
        org_id = new_home(place)
        with open_home(place, org_id) as home:
            home.drop("a.csv", rows(0, 10))
        for path in [place, *place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
        closed = place / folder.format(org=org_id)
        for path in [closed, *closed.iterdir()] if folder.endswith("{org}") else [closed]:
            os.chown(path, 0, 0)
            path.chmod(0o755 if path.is_dir() else 0o644)

        kind, told = result(start("work", place, org_id, "nobody"))

        assert kind == "Unavailable", told
        with open_home(place, org_id) as home:
            assert home.ledger() == []
            assert [receipt.accepted for receipt in home.work()] == [10]
            home.check()
    finally:
        shutil.rmtree(place, ignore_errors=True)


# --- homes that move


@pytest.mark.long
def test_a_moved_home_works(place, tmp_path):
    with open_home(*place) as home:
        home.drop("a.csv", rows(0, 1500) + csv_row("x", "NaN"))
        home.work()
        stored = home.measurements()
    moved = tmp_path / "elsewhere" / "a new house"
    moved.parent.mkdir()
    place[0].rename(moved)

    with open_home(moved, place[1]) as home:
        assert home.measurements() == stored
        assert home.ingest("b.csv", rows(1000, 2000)).accepted == 500
        assert home.ingest("a.csv", rows(0, 1500) + csv_row("x", "NaN")).repeats == 1500
        home.check()
    assert not place[0].exists()


@pytest.mark.parametrize(
    "name",
    [
        *long_after(1, ['it\'s "quoted"', "Übergrößenträger", "100% #1 [x]?*"]),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("mit Leerzeichen", "日本")),
    ],
)
def test_a_home_on_any_path_works(tmp_path, name):
    with a_home(tmp_path / name) as home:
        home.drop("a.csv", rows(0, 1500) + csv_row("u0", 2) + csv_row("x", "NaN"))

        (receipt,) = home.work()

        assert (receipt.accepted, receipt.rejected) == (1500, 2)
        home.check()
