"""A home of revision 0014, whose bills did not say who approved them and had no numbers."""

import pytest

from meterlake.stores.state.core.migrations.versions import v0015_bills_of_the_api
from tests.migrations import changing, insert, migrate, rows, upgrade

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
    migrate(stored, v0015_bills_of_the_api.upgrade)

    expected = [columns for _, _, _, columns in BILLS]
    assert rows(stored, f"SELECT {COLUMNS} FROM bill ORDER BY bill_date") == expected
    assert rows(stored, "SELECT * FROM invoice_sequence") == []


def test_the_way_back_takes_lines_of_people_from_bills(stored):
    migrate(stored, v0015_bills_of_the_api.upgrade)
    with changing(stored) as connection:
        insert(connection, "invoice_sequence", org="o", last=7)
        memo = {"id": "m", "org": "o", "bill_id": "pending", "kind": "CREDIT", "position": 1}
        texts = {"key": "MEMO/m", "body": "{}", "line": "{}", "version": 1}
        insert(connection, "bill_memo", **memo, **texts, **AUDIT)
        line = {"bill_id": "pending", "sequence": 2, "key": "MEMO/m", "body": "{}", "pins": "{}"}
        insert(connection, "bill_line", **line)
    before = "SELECT id, status, locked, total, modified FROM bill ORDER BY id"
    bills = rows(stored, before)

    migrate(stored, v0015_bills_of_the_api.downgrade)

    assert rows(stored, before) == bills
    kept = sorted(rows(stored, "SELECT bill_id, key FROM bill_line"))
    assert kept == [(id_, "USAGE/a") for id_, *_ in sorted(BILLS)]
    migrate(stored, v0015_bills_of_the_api.upgrade)
    assert rows(stored, "SELECT * FROM bill_memo") == []
