"""A home of the revision before versions of bills: what it has counts as written before all numbers."""

from datetime import datetime

from meterlake.stores.state import State
from meterlake.stores.state.billing.calculations.pins import last_transaction
from meterlake.stores.state.core.row_digests import digest_of_posting, digest_of_version
from tests.migrations import changing, insert, rows, upgrade

NOON, LATER = "2026-10-01T12:00:00.000000Z", "2026-10-01T13:00:00.250000Z"


def fill(connection):
    insert(connection, "organization", id="o", code="o", name="O", created=NOON)
    made = {"org": "o", "kind": "Thing", "id": "t", "author": "me", "created": NOON}
    made["created_by"] = "me"
    first = {"version": 1, "valid_from": NOON, "valid_to": LATER, "body": '{"code":"t"}'}
    insert(connection, "entity_history", **made, **first)
    insert(connection, "entity_history", **made, version=2, valid_from=LATER, body=None)
    posting = {"id": "p", "org": "o", "from_account": "a", "to_account": "b", "amount": "1.5"}
    posting |= {"currency": "EUR", "kind": "CREDIT", "source_id": "s", "created": LATER}
    insert(connection, "posting", sequence=1, **posting, created_by="me")


def as_read(row, instants):
    moments = {name: datetime.fromisoformat(row[name]) for name in instants if row[name]}
    return row | moments


def test_what_is_there_counts_as_first_and_fits_its_digest(empty_database):
    with changing(empty_database) as connection:
        upgrade(connection, "0029")
        fill(connection)
    State.at(empty_database).close()

    query = "SELECT version, began, ended, digest FROM entity_history ORDER BY version"
    first, second = rows(empty_database, query)
    assert [first[:3], second[:3]] == [(1, 0, 0), (2, 0, None)]
    with changing(empty_database) as connection:
        version = connection.exec_driver_sql("SELECT * FROM entity_history WHERE version = 1")
        [row] = version.mappings()
        read = as_read(dict(row), ("valid_from", "created"))
        assert first[3] == digest_of_version(read)
        assert first[3] != digest_of_version(read | {"body": "{}"})
        [row] = connection.exec_driver_sql("SELECT * FROM posting").mappings()
        assert row["digest"] == digest_of_posting(as_read(dict(row), ("applied", "created")))
    with State.at(empty_database) as state, state.reading("o") as reader:
        assert last_transaction(reader) == 0
