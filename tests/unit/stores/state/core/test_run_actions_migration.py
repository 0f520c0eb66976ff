"""Runs of bills from before deletions were handed over: what each is about is filled in."""

import pytest

from meterlake.stores.state import State
from meterlake.stores.state.billing.stored_bills import BillKey
from tests.migrations import changing, insert, rows, upgrade

NOON = "2026-10-01T12:00:00.000000Z"
KEY = {"account_id": "a", "bill_date": "2026-10-01", "frequency": "MONTHLY", "interval": 1}
WRITTEN = {"org": "o", "period": "2026-09", "currency": "USD", "total": "7", "created": NOON}
WRITTEN |= {"body": "{}", "pins": "{}", "created_by": "me", "modified": NOON, "modified_by": "me"}
VERSION = {"began": 0, "ended": 1, "replaced": NOON, "replaced_by": "me", "version": 1}


@pytest.fixture
def older(empty_database):
    """A database of the revision before, with two bills, one of them deleted, and their runs."""
    with changing(empty_database) as connection:
        upgrade(connection, "0035")
        insert(connection, "organization", id="o", code="o", name="O", created=NOON)
        _insert_bill(connection, "there", grouping_key="eu")
        _insert_version(connection, "there", grouping_key="eu")
        _insert_version(connection, "gone", grouping_key="", interval=3)
        for number in (1, 2):
            _insert_run(connection, f"there{number}", "Bill", "there")
        _insert_run(connection, "gone1", "Bill", "gone")
        _insert_run(connection, "unknown1", "Bill", "unknown")
        _insert_run(connection, "rule1", "Notification", "rule")
    return empty_database


def _insert_bill(connection, id, **changes):
    facts = WRITTEN | KEY | {"id": id, "version": 1, "status": "PENDING", "locked": False}
    insert(connection, "bill", **facts | changes)


def _insert_version(connection, id, **changes):
    facts = WRITTEN | KEY | VERSION | {"bill_id": id}
    insert(connection, "bill_version", **facts | changes)


def _insert_run(connection, id, kind, entity):
    job = {"id": id, "org": "o", "kind": "INTEGRATION_RUN", "status": "COMPLETE", "attempt": 1}
    job |= {"parameters": "{}", "created": NOON, "version": 1, "cancel_asked": False}
    insert(connection, "job", **job)
    run = {"id": id, "org": "o", "status": "COMPLETE", "entity_type": kind, "entity_id": entity}
    run |= {"destination": "HTTP", "run_key": id, "created": NOON, "queue": "q"}
    insert(connection, "integration_run", **run)


def test_old_runs_are_told_which_bills_they_are_about(older):
    State.at(older).close()

    found = dict(rows(older, "SELECT id, subject FROM integration_run"))
    assert found["there1"] == found["there2"] == _identity(grouping_key="eu")
    # What is deleted says in its last version what it was.
    assert found["gone1"] == _identity(interval=3)
    # Of a bill that left nothing behind, runs are about its id: they are one line at least.
    assert (found["unknown1"], found["rule1"]) == ("unknown", None)
    assert set(rows(older, "SELECT action FROM integration_run")) == {("SEND",)}


def _identity(**changes):
    return BillKey(**{**KEY, "grouping_key": "", **changes}).identity
