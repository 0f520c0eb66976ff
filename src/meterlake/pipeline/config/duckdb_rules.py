"""Rules that need DuckDB, so they stand beside those of the model.

SQL of an aggregation's own costs its check within a transaction of State: nothing is run, queries are
only bound, in a process that is killed where that takes long. What is pruned must have no
measurements: the lake is looked into before a transaction begins.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import duckdb

from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.custom_sql import MEASUREMENTS, InvalidSql, columns_of
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, StillReferenced
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.resources import code_of
from meterlake.model.rules import Proposed
from meterlake.model.rules.proposed import changes, check_dependents
from meterlake.model.values.entity import Record
from meterlake.model.values.sql import identifier
from meterlake.stages.config.check import Further
from meterlake.stores import Organization
from meterlake.stores.custom_sql import Checker, SqlLimits
from meterlake.stores.lake.tables import table_names

# What speaks against the deletion of entities besides configuration, bills and transactions.
Measured: TypeAlias = Callable[[Sequence[Record[Any]]], Iterator[StillReferenced]]


def custom_sql_rules(limits: SqlLimits) -> Further:
    """The rules, with what a query may take when it runs.

    They are of changed entities only: no other change than a meter's makes SQL unfit that was saved.
    """
    return {
        Aggregation: (partial(_can_run, limits),),
        Meter: (partial(_keeps_running, limits),),
    }


def _can_run(limits: SqlLimits, new: Proposed[Aggregation]) -> None:
    """SQL of its own is one SELECT that is allowed, fits the meter, and gives one exact number."""
    if new.entity.aggregation is Reduce.CUSTOM_SQL:
        with Checker(limits) as checker:
            _fits(checker, new)


def _keeps_running(limits: SqlLimits, new: Proposed[Meter]) -> None:
    """A field that the SQL of an aggregation reads is not removed and keeps its category."""
    if not changes(new, "data_fields", "derived_fields"):
        return
    reading = [
        record
        for record in new.configuration.where(Aggregation, "meter_id", new.id)
        if record.entity.aggregation is Reduce.CUSTOM_SQL
    ]
    if not reading:
        return
    codes = ", ".join(field.code for field in new.entity.all_fields)
    with Checker(limits) as checker:
        check_dependents(reading, partial(_fits, checker), new.configuration, "dataFields", codes)


def _fits(checker: Checker, new: Proposed[Aggregation]) -> None:
    sql = new.entity.custom_sql or ""
    columns = columns_of(new.configuration.get(Meter, new.entity.meter_id).entity)
    try:
        checker.check(sql, columns)
        checker.bind(sql, columns)
    except InvalidSql as error:
        rule = f"it must be one SELECT over {MEASUREMENTS} that gives one number: {error}"
        raise Invalid("customSql", new.entity.custom_sql, rule) from None


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
