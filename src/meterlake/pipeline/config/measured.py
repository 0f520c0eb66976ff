"""Which meters and accounts have measurements: what is pruned must have none."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import StillReferenced
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.resources import code_of
from meterlake.model.values.entity import Record
from meterlake.model.values.sql import identifier
from meterlake.stores import Organization
from meterlake.stores.lake.tables import table_names

# What speaks against the deletion of entities besides configuration, bills and transactions.
Measured: TypeAlias = Callable[[Sequence[Record[Any]]], Iterator[StillReferenced]]


def guard_measured(organization: Organization) -> Measured:
    """A look into the lake of an organization; it is opened only for meters and accounts."""

    def look(gone: Sequence[Record[Any]]) -> Iterator[StillReferenced]:
        meters = [each for each in gone if isinstance(each.entity, Meter)]
        accounts = {each.id: each for each in gone if isinstance(each.entity, Account)}
        if not meters and not accounts:
            return
        with organization.lake.reader() as connection:
            tables = {each for each in table_names(connection) if each.startswith(meter_table(""))}
            used = [each for each in meters if _has_rows(connection, tables, each.id)]
            used += [accounts[id_] for id_ in _users(connection, tables, list(accounts))]
        for each in used:
            yield StillReferenced(
                type(each.entity).__name__, code_of(each.entity) or each.id, "measurements"
            )

    return look


def _has_rows(connection: duckdb.DuckDBPyConnection, tables: set[str], meter_id: str) -> bool:
    table = meter_table(meter_id)
    if table not in tables:
        return False
    found = connection.execute(f"SELECT 1 FROM lake.{identifier(table)} LIMIT 1").fetchone()
    return found is not None


def _users(
    connection: duckdb.DuckDBPyConnection, tables: set[str], account_ids: list[str]
) -> list[str]:
    """Which accounts have measurements of any meter."""
    found: set[str] = set()
    for table in tables if account_ids else ():
        rows = connection.execute(
            f"SELECT DISTINCT account_id FROM lake.{identifier(table)}"
            " WHERE list_contains(?, account_id)",
            [account_ids],
        ).fetchall()
        found.update(row[0] for row in rows)
    return sorted(found)
