"""A home of revision 0036, whose memos of late usage nobody took back."""

from meterlake.stores.state import State
from tests.migrations import changing, insert, rows, upgrade

FOUND = "2026-10-02T12:00:00.000000Z"
BILL = {
    "bill_id": "b",
    "account_id": "a",
    "bill_date": "2026-10-01",
    "frequency": "MONTHLY",
    "interval": 1,
    "grouping_key": "",
    "period": "2026-09",
    "currency": "USD",
}


def test_what_was_carried_before_is_not_taken_back_yet(empty_database):
    late = {"since": 1, "until": 2, "status": "CARRIED", "bill_version": 1, "sources": "[]"}
    with changing(empty_database) as connection:
        upgrade(connection, "0036")
        insert(connection, "organization", id="o", code="o", name="O", created=FOUND)
        insert(connection, "late_usage", id="l", org="o", found=FOUND, **BILL, **late)
        line = {"key": "USAGE/", "description": "GB", "amount": "1.50"}
        insert(connection, "late_usage_line", late_usage_id="l", position=1, **line)

    State.at(empty_database).close()

    found = "SELECT l.amount, l.taken_back, u.ledger_at FROM late_usage_line l, late_usage u"
    assert rows(empty_database, found) == [("1.50", None, None)]
