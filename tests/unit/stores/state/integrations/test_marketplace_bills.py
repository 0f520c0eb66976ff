"""A home of revision 0025, which knew of bills only what was reported of them."""

import pytest

from meterlake.stores.state import State
from tests.migrations import changing, insert, rows, upgrade

MADE = "2026-10-01T00:00:00.000000Z"
RECORD = {"org": "o", "system": "AWS", "run_key": "k", "quantity": 1, "accepted": True}
RECORDS = [("p-cents", "acme", "b1"), ("p-cents", "acme", "b1"), ("p-more", "acme", "b1")]
FOUND = "SELECT org, dimension, bill_id, account_id FROM marketplace_bill ORDER BY dimension"


@pytest.fixture
def stored(empty_database):
    """The URL of a database of the revision before, with records of one bill."""
    with changing(empty_database) as connection:
        upgrade(connection, "0025")
        insert(connection, "organization", id="o", code="o", name="O", created=MADE)
        for number, (dimension, account, bill) in enumerate(RECORDS):
            facts = {"dimension": dimension, "account_id": account, "bill_id": bill}
            hour = f"2026-10-01T0{number}:00:00.000000Z"
            insert(connection, "marketplace_record", customer="c", hour=hour, **facts, **RECORD)
    return empty_database


def test_bills_of_which_something_was_reported_are_those_that_were_sent(stored):
    State.at(stored).close()

    assert rows(stored, FOUND) == [("o", "p-cents", "b1", "acme"), ("o", "p-more", "b1", "acme")]
