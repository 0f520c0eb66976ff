"""Locks of State: among machines where State is a server; in a file nobody else is there."""

import pytest

from meterlake.model.errors import Busy
from meterlake.stores.state import State

REFUSAL = Busy("backfill 'b'", "another machine works on it")


@pytest.fixture
def other(database, state, clock):
    """The same State, opened by another machine."""
    if state.waits_for_nobody:
        pytest.skip("a file has one machine, whose processes have locks in files")
    with State.at(database, clock) as opened:
        yield opened


def test_one_machine_at_a_time_has_a_lock(state, other):
    with state.lock("one", REFUSAL), pytest.raises(Busy), other.lock("one", REFUSAL):
        pass
    with other.lock("one", REFUSAL):
        pass


def test_a_lock_is_free_after_an_error(state, other):
    with pytest.raises(ZeroDivisionError), state.lock("one", REFUSAL):
        _ = 1 / 0
    with other.lock("one", REFUSAL):
        pass


def test_other_locks_are_other_locks(state, other):
    with state.lock("one", REFUSAL), other.lock("two", REFUSAL):
        pass


def test_a_lock_is_free_when_its_session_ends(state, other):
    taken = state.lock("one", REFUSAL)
    taken.__enter__()
    with other.writing_home() as connection:
        ended = connection.exec_driver_sql(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_locks"
            " WHERE locktype = 'advisory' AND pid <> pg_backend_pid() AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).scalar()
    assert ended == 1
    taken.__exit__(None, None, None)
    with other.lock("one", REFUSAL):
        pass
