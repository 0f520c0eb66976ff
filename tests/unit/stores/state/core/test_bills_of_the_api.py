"""A home of revision 0014, whose bills did not say who approved them and had no numbers."""

import pytest

from meterlake.stores.state import State
from tests.migrations import changing, insert, rows, upgrade

BEFORE = "0014"
MADE, CHANGED = "2026-10-01T00:00:00.000000Z", "2026-10-02T00:00:00.000000Z"
AUDIT = {"created": MADE, "created_by": "bob", "modified": CHANGED, "modified_by": "ann"}
COLUMNS = "approved, approved_by, locked_at, locked_by, calculated, job_id, invoice_number"
# id, status, locked, and what the columns say afterwards.
BILLS = [
    ("pending", "PENDING", False, (None, None, None, None, CHANGED, None, None)),
    ("approved", "APPROVED", False, (CHANGED, "ann", None, None, MADE, None, None)),
    ("locked", "APPROVED", True, (None, None, CHANGED, "ann", MADE, None, None)),
]


@pytest.fixture
def stored(empty_database):
    """The URL of a database of the revision before, with bills that stand everywhere."""
    with changing(empty_database) as connection:
        upgrade(connection, BEFORE)
        insert(connection, "organization", id="o", code="o", name="O", created=MADE)
        for number, (id_, status, locked, _) in enumerate(BILLS, start=1):
            bill = {"id": id_, "org": "o", "account_id": id_, "bill_date": f"2026-10-0{number}"}
            period = {"frequency": "MONTHLY", "interval": 1, "period": "2026-09", "version": 2}
            content = {"currency": "USD", "total": "1", "body": "{}", "pins": "{}"}
            stands = {"status": status, "locked": locked}
            insert(connection, "bill", **bill, **period, **content, **stands, **AUDIT)
            line = {"bill_id": id_, "sequence": 1, "key": "USAGE/a", "body": "{}", "pins": "{}"}
            insert(connection, "bill_line", **line)
    return empty_database


def test_bills_say_who_changed_them_last(stored):
    State.at(stored).close()

    expected = [columns for _, _, _, columns in BILLS]
    assert rows(stored, f"SELECT {COLUMNS} FROM bill ORDER BY bill_date") == expected
    assert rows(stored, "SELECT * FROM invoice_sequence") == []
