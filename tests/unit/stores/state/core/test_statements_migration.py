"""A home of revision 0032, whose bills had no statements."""

import pytest
from sqlalchemy.exc import ProgrammingError

from meterlake.model.errors import Unavailable
from meterlake.stores.state.core.migrations.versions import v0033_statements
from tests.migrations import changing, insert, migrate, rows, upgrade

MADE = "2026-10-01T00:00:00.000000Z"
BILL = {
    "id": "b",
    "org": "o",
    "account_id": "a",
    "bill_date": "2026-11-01",
    "frequency": "MONTHLY",
    "interval": 1,
    "period": "2026-10",
    "version": 1,
    "status": "PENDING",
    "locked": False,
    "currency": "USD",
    "total": "1",
    "body": "{}",
    "pins": "{}",
    "created": MADE,
    "created_by": "bob",
    "modified": MADE,
    "modified_by": "ann",
}
JOB = {"org": "o", "status": "COMPLETE", "parameters": "{}", "attempt": 1, "created": MADE}


@pytest.fixture
def stored(empty_database):
    """The URL of a database of the revision before, with a bill and the job that made it."""
    with changing(empty_database) as connection:
        upgrade(connection, v0033_statements.down_revision)
        insert(connection, "organization", id="o", code="o", name="O", created=MADE)
        insert(connection, "bill", **BILL)
        insert(connection, "job", id="made", kind="bill", **JOB)
    return empty_database


def test_the_way_there_and_back_keeps_bills_and_their_jobs(stored):
    migrate(stored, v0033_statements.upgrade)
    with changing(stored) as connection:
        insert(connection, "job", id="j", kind="statement", **JOB)
        insert(connection, "statement_job", id="j", org="o", bill_id="b")
        file = {"job_id": "j", "key": "k", "size": 2, "sha256": "00", "filtered": False}
        times = {"calculated": MADE, "made": MADE}
        insert(connection, "bill_statement", bill_id="b", format="json", org="o", **file, **times)
    assert [bool(each) for (each,) in rows(stored, "SELECT outdated FROM bill_statement")] == [
        False
    ]

    migrate(stored, v0033_statements.downgrade)

    assert rows(stored, "SELECT id FROM job") == [("made",)]
    assert rows(stored, "SELECT id FROM bill") == [("b",)]
    with pytest.raises((Unavailable, ProgrammingError), match="statement_job"):
        rows(stored, "SELECT id FROM statement_job")
    migrate(stored, v0033_statements.upgrade)
    assert rows(stored, "SELECT * FROM bill_statement") == []
