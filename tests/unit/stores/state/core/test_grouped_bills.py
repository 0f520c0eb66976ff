"""A home of revision 0016, whose bills of one date and period could not be told apart."""

import pytest
from sqlalchemy.exc import IntegrityError

from meterlake.stores.state import State
from tests.migrations import changing, insert, rows, upgrade

BEFORE = "0016"
MADE = "2026-10-01T00:00:00.000000Z"
AUDIT = {"created": MADE, "created_by": "bob", "modified": MADE, "modified_by": "ann"}
BILL = {
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
    **AUDIT,
}
LINE = {"sequence": 1, "key": "USAGE/a", "body": "{}", "pins": "{}"}


@pytest.fixture
def stored(empty_database):
    """The URL of a database of the revision before, with a bill and its line."""
    with changing(empty_database) as connection:
        upgrade(connection, BEFORE)
        insert(connection, "organization", id="o", code="o", name="O", created=MADE)
        insert(connection, "bill", id="first", **BILL)
        insert(connection, "bill_line", bill_id="first", **LINE)
    return empty_database


def lines(url):
    query = (
        "SELECT b.id, l.key FROM bill b JOIN bill_line l ON l.bill_id = b.id ORDER BY b.id, l.key"
    )
    return rows(url, query)


def add_grouped(url, grouping_key):
    with changing(url) as connection:
        insert(connection, "bill", id="second", **BILL, grouping_key=grouping_key)
        insert(connection, "bill_line", bill_id="second", **LINE)


def test_before_there_is_one_bill_of_a_date_and_period(stored):
    with pytest.raises(IntegrityError), changing(stored) as connection:
        insert(connection, "bill", id="second", **BILL)


def test_bills_keep_their_lines_and_get_an_empty_key(stored):
    State.at(stored).close()

    assert lines(stored) == [("first", "USAGE/a")]
    with pytest.raises(IntegrityError):
        add_grouped(stored, "")
    add_grouped(stored, "contract")
    assert lines(stored) == [("first", "USAGE/a"), ("second", "USAGE/a")]
