"""A signal ends a process also while a library works that tells it as an error of its own."""

import signal
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy import exc

from meterlake.model.errors import Unavailable
from meterlake.stores.lake.connection import open_cursor
from meterlake.stores.lake.connection import translate_errors as of_lake
from meterlake.stores.lake.lake import Lake
from meterlake.stores.state.core.engine import translate_errors as of_state

LONG = "SELECT count(*) FROM range(100_000_000_000) t(a) WHERE a % 7 = 3"


class Ended(KeyboardInterrupt):
    pass


def end(*_):
    raise Ended


def _raise(kind):
    raise kind


def stumble(over, error):
    """Clean up after something, and fail, as a driver does."""
    try:
        over()
    finally:
        raise error


@pytest.fixture
def alarm():
    before = signal.signal(signal.SIGALRM, end)
    yield partial(signal.setitimer, signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def lake(tmp_path):
    made = Lake(tmp_path / "lake", threads=2)
    made.create()
    yield made
    made.close()


def reading(lake):
    return lake.reader()


def apart(lake):
    return lake.apart()


@contextmanager
def writing(lake):
    with lake.lock(), lake.transaction() as connection:
        yield connection


@contextmanager
def beside(lake):
    with lake.reader() as connection, open_cursor(connection) as cursor:
        yield cursor


def ask_long(way, lake, alarm):
    with way(lake) as connection:
        alarm(0.1)
        connection.execute(LONG).fetchall()


@pytest.mark.long
@pytest.mark.parametrize("way", [reading, apart, writing, beside])
def test_a_query_of_duckdb_that_is_interrupted_ends_the_process(alarm, lake, way):
    for _ in range(4):  # Which thread of DuckDB has the query is a matter of luck.
        with pytest.raises(Ended):
            ask_long(way, lake, alarm)

    with way(lake) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_driver_that_cannot_clean_up_ends_the_process():
    error = exc.ProgrammingError("SELECT 1", {}, Exception("in transaction"))

    with pytest.raises(Ended), of_state():
        stumble(end, error)


def test_an_error_at_the_end_of_a_generator_is_told():
    error = exc.OperationalError("ROLLBACK", {}, Exception("broken"))

    with pytest.raises(Unavailable), of_state():
        stumble(partial(_raise, GeneratorExit), error)


def test_an_error_of_something_else_is_left_as_it_is():
    with pytest.raises(RuntimeError, match="has been invalidated"), of_lake():
        raise RuntimeError("has been invalidated")
