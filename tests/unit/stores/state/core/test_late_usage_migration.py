"""The tables of late usage come and go."""

from meterlake.stores.state import State
from meterlake.stores.state.core.migrations.versions import (
    v0034_late_usage,
    v0037_late_usage_taken_back,
)
from tests.migrations import changing, insert, migrate, rows

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
    State.at(empty_database).close()
    late = {"since": 1, "until": 2, "status": "CARRIED", "bill_version": 1, "sources": "[]"}
    migrate(empty_database, v0037_late_usage_taken_back.downgrade)
    with changing(empty_database) as connection:
        insert(connection, "organization", id="o", code="o", name="O", created=FOUND)
        insert(connection, "late_usage", id="l", org="o", found=FOUND, **BILL, **late)
        line = {"key": "USAGE/", "description": "GB", "amount": "1.50"}
        insert(connection, "late_usage_line", late_usage_id="l", position=1, **line)

    migrate(empty_database, v0037_late_usage_taken_back.upgrade)

    found = "SELECT l.amount, l.taken_back, u.ledger_at FROM late_usage_line l, late_usage u"
    assert rows(empty_database, found) == [("1.50", None, None)]


def test_the_tables_come_empty_and_go(empty_database):
    State.at(empty_database).close()
    late = {"since": 1, "until": 2, "status": "OPEN", "bill_version": 1, "sources": "[]"}
    with changing(empty_database) as connection:
        insert(connection, "organization", id="o", code="o", name="O", created=FOUND)
        insert(connection, "late_usage", id="l", org="o", found=FOUND, **BILL, **late)
        line = {"key": "USAGE/", "description": "GB", "amount": "1.50"}
        insert(connection, "late_usage_line", late_usage_id="l", position=1, **line)

    migrate(empty_database, v0037_late_usage_taken_back.downgrade)
    migrate(empty_database, v0034_late_usage.downgrade)
    migrate(empty_database, v0034_late_usage.upgrade)
    migrate(empty_database, v0037_late_usage_taken_back.upgrade)

    assert rows(empty_database, "SELECT * FROM late_usage") == []
    assert rows(empty_database, "SELECT * FROM late_usage_line") == []
