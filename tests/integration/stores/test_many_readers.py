"""Many threads that read a lake through one DuckDB, which breaks now and then."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

from meterlake.model.errors import Unavailable
from tests.homes import HEADER, a_home, csv_row

READERS = 20
ROWS = 200


def several(number: int) -> str:
    first = number * ROWS
    return HEADER + "".join(csv_row(f"u{row}") for row in range(first, first + ROWS))


@pytest.fixture
def home(tmp_path, lake_location):  # noqa: ARG001
    with a_home(tmp_path) as made:
        made.ingest("0.csv", several(0))
        yield made


def break_instance(lake) -> None:
    """End one query as DuckDB does when it gives up all of its instance."""
    with lake.reader() as reader:
        reader.execute("SELECT 1").fetchone()
        raise duckdb.FatalException("FATAL Error: database has been invalidated")


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_twenty_threads_read_while_files_come_in_and_their_instance_breaks(home, seconds):
    lake = home.organization.explored_lake
    until = time.monotonic() + seconds
    opened = []

    def read() -> list[int]:
        counts = []
        while time.monotonic() < until:
            with lake.reader() as reader:
                [count] = reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()
            counts.append(count)
        return counts

    def spoil() -> None:
        while time.monotonic() < until:
            opened.append(lake._reader)
            with pytest.raises(Unavailable, match="invalidated"):
                break_instance(lake)
            time.sleep(seconds / 10)

    with ThreadPoolExecutor(READERS + 1) as pool:
        counts = [pool.submit(read) for _ in range(READERS)]
        spoiled = pool.submit(spoil)
        number = 0
        while time.monotonic() < until:
            number += 1
            home.ingest(f"{number}.csv", several(number))
        spoiled.result()
        found = [each.result() for each in counts]

    assert all(each and each == sorted(each) for each in found), "what was there goes away"
    assert {count % ROWS for each in found for count in each} == {0}, "half a file is seen"
    assert len({id(each) for each in opened}) > 1
    with lake.reader() as reader:
        assert reader.execute("SELECT count(*) FROM lake.uid_index").fetchone() == (
            (number + 1) * ROWS,
        )


def test_only_the_connection_that_broke_is_given_up(home):
    lake = home.organization.explored_lake
    begun, broken = threading.Event(), threading.Event()

    def read_long() -> tuple[int]:
        with lake.reader() as reader:
            begun.set()
            assert broken.wait(180)
            return reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(read_long)
        assert begun.wait(180)
        former = lake._reader
        with pytest.raises(Unavailable):
            break_instance(lake)
        lake.open_to_read()
        newer = lake._reader
        lake._give_up(former)
        broken.set()

        assert waiting.result() == (ROWS,)
    assert lake._reader is newer is not former
    with lake.reader() as reader:
        assert reader.execute("SELECT 1").fetchone() == (1,)
