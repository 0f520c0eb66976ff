"""A home of the revision before the ledger, where transactions of balances were a table."""

from decimal import Decimal

import pytest

from meterlake.model.bills.ledger import account_sums
from meterlake.stores.state import State
from meterlake.stores.state.billing.credits import balances, ledger
from tests.migrations import changing, insert, upgrade

NOON, LATER = "2026-10-01T12:00:00.000000Z", "2026-10-01T13:00:00.000000Z"
TYPE = "0d6f3a52-6f0c-4b38-8b45-0c6c8c6f0001"
EARLIER = "2026-09-01T00:00:00.000000Z"
# balance, sequence, id, amount, description, applied, entity type, created
TRANSACTIONS = [
    ("b1", 1, "t1", "100.5", "Paid", NOON, "USER", NOON),
    ("b1", 2, "t2", "-0.05", None, EARLIER, "SERVICE_USER", LATER),
    ("b2", 1, "t3", "0", None, LATER, "USER", NOON),
]


@pytest.fixture
def stored(empty_database):
    with changing(empty_database) as connection:
        upgrade(connection, "0015")
        fill(connection)
    return empty_database


def fill(connection):
    insert(connection, "organization", id="o", code="o", name="O", created=NOON)
    envelope = {"version": 1, "created": NOON, "created_by": "me"}
    for id_ in ("b1", "b2"):
        body = f'{{"accountId":"a","currency":"EUR","code":"{id_}"}}'
        address = {"org": "o", "kind": "Balance", "id": id_, "code": id_, "body": body}
        insert(connection, "entity", **address, **envelope, modified=NOON, modified_by="me")
    for balance, sequence, id_, amount, description, applied, cause, created in TRANSACTIONS:
        insert(
            connection,
            "balance_transaction",
            org="o",
            balance_id=balance,
            sequence=sequence,
            id=id_,
            amount=amount,
            description=description,
            applied=applied,
            paid="7",
            currency_paid="USD",
            transaction_type_id=TYPE,
            transacted=EARLIER,
            entity_type=cause,
            entity_id="me",
            created=created,
            created_by="me",
        )


@pytest.mark.long
def test_transactions_become_postings(stored):
    with State.at(stored) as state, state.reading("o") as reader:
        postings = list(ledger.all_postings(reader))
        [first, second] = balances.of_balance(reader, "b1")
        [third] = balances.of_balance(reader, "b2")

    assert sum(account_sums(postings).values()) == 0
    assert {each.currency for each in postings} == {"EUR"}
    assert [str(each.from_account) for each in postings] == [
        "customer:a",
        "customer:a",
        "balance:b1",
    ]
    assert (first.amount, second.amount, third.amount) == (Decimal("100.5"), Decimal("-0.05"), 0)
    wire = first.to_wire()
    assert (wire["id"], wire["description"], wire["paid"]) == ("t1", "Paid", 7)
    assert (wire["entityType"], wire["appliedDate"]) == ("USER", first.posting.created)
    # One that was applied when it was booked had no date of its own.
    assert (first.posting.applied, second.posting.applied.month) == (None, 9)
