"""A home of the revision before the ledger, where transactions of balances were a table."""

from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import text

from meterlake.model.ledger import account_sums
from meterlake.stores.state import State
from meterlake.stores.state.billing import balances, ledger
from meterlake.stores.state.core import engine
from meterlake.stores.state.core.engine import Database, parse_url, sqlite_url
from meterlake.stores.state.core.migrations.versions import v0016_ledger
from tests.databases import NUMBERS, administrate

NOON, LATER = "2026-10-01T12:00:00.000000Z", "2026-10-01T13:00:00.000000Z"
TYPE = "0d6f3a52-6f0c-4b38-8b45-0c6c8c6f0001"
EARLIER = "2026-09-01T00:00:00.000000Z"
# balance, sequence, id, amount, description, applied, entity type, created
TRANSACTIONS = [
    ("b1", 1, "t1", "100.5", "Paid", NOON, "USER", NOON),
    ("b1", 2, "t2", "-0.05", None, EARLIER, "SERVICE_USER", LATER),
    ("b2", 1, "t3", "0", None, LATER, "USER", NOON),
]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request, tmp_path):
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "state.sqlite")
    server = request.getfixturevalue("postgresql")
    name = f"ledger_{next(NUMBERS)}"
    administrate(server, f"CREATE DATABASE {name}")
    return parse_url(server).set(database=name)


@contextmanager
def changing(url):
    database = Database(url)
    try:
        with database.writing() as connection:
            yield connection
    finally:
        database.close()


@pytest.fixture
def stored(empty):
    with changing(empty) as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(engine.__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, v0016_ledger.down_revision)
        fill(connection)
    return empty


def fill(connection):
    def insert(table, **values):
        names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
        connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)

    insert("organization", id="o", code="o", name="O", created=NOON)
    envelope = {"version": 1, "created": NOON, "created_by": "me"}
    for id_ in ("b1", "b2"):
        body = f'{{"accountId":"a","currency":"EUR","code":"{id_}"}}'
        address = {"org": "o", "kind": "Balance", "id": id_, "code": id_, "body": body}
        insert("entity", **address, **envelope, modified=NOON, modified_by="me")
    for balance, sequence, id_, amount, description, applied, cause, created in TRANSACTIONS:
        insert(
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


def dump(connection):
    query = text("SELECT * FROM balance_transaction ORDER BY balance_id, sequence")
    return [dict(row._mapping) for row in connection.execute(query)]


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


def test_going_back_restores_every_transaction(stored):
    with changing(stored) as connection:
        before = dump(connection)
    State.at(stored).close()

    with changing(stored) as connection, Operations.context(MigrationContext.configure(connection)):
        v0016_ledger.downgrade()
        after = dump(connection)

    assert after == before


def test_going_back_makes_transactions_of_what_bills_drew(stored):
    State.at(stored).close()
    row = "'c', 'o', 'balance:b1', 'revenue:', '3', 'EUR', 'consumption', 'b1', 'bill'"
    with changing(stored) as connection, Operations.context(MigrationContext.configure(connection)):
        names = "id, org, from_account, to_account, amount, currency, kind, source_id, bill_id"
        values = f"{row}, '{LATER}', 'job'"
        connection.execute(
            text(f"INSERT INTO posting ({names}, created, created_by) VALUES ({values})")
        )
        v0016_ledger.downgrade()
        drawn = dump(connection)[2]

    assert (drawn["sequence"], drawn["amount"], drawn["entity_type"]) == (3, "-3", "BILL")
    assert (drawn["entity_id"], drawn["applied"]) == ("bill", LATER)
