"""A signal ends a process also while a library works that tells it as an error of its own."""

import signal
from functools import partial

import duckdb
import pytest
from sqlalchemy import exc

from meterlake.model.errors import Unavailable
from meterlake.stores.lake.connection import translate_errors as of_lake
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


def test_a_query_of_duckdb_that_is_interrupted_ends_the_process(alarm):
    alarm(0.2)
    with duckdb.connect() as connection, pytest.raises(Ended), of_lake():
        connection.execute(LONG).fetchall()


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
