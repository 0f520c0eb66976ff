"""What tables a lake has, and which of the declared ones it lacks."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import duckdb

from meterlake.model.errors import Invalid
from meterlake.model.measurements.measurement import (
    FIELDS_KEY,
    FIXED_COLUMNS,
    FORMER_MAX,
    LAKE_TABLES,
    NUMBER_TYPE,
    TEXT_TYPE,
    MeterFields,
)
from meterlake.model.values.sql import identifier
from meterlake.model.work.backfill import RETRACTION, WITHDRAWN_SOURCE
from meterlake.stores.lake.connection import translate_errors

# Sources of which older versions of meterlake withdrew all measurements.
_WITHDRAWN_BEFORE: Final = f"""
    INSERT INTO lake.{WITHDRAWN_SOURCE} BY NAME
    SELECT w.backfill, w.step, s.identity, s.attempt FROM lake.source s JOIN (
        SELECT identity, count(*) AS rows, max(retracted_at) AS latest,
            arg_max(backfill, retracted_at) AS backfill, arg_max(step, retracted_at) AS step
        FROM lake.{RETRACTION} GROUP BY identity
    ) w USING (identity) JOIN (
        SELECT identity, sum(accepted) AS rows FROM lake.source GROUP BY identity
    ) b USING (identity)
    WHERE w.rows = b.rows AND s.status = 'done' AND s.finished_at <= w.latest"""


def field_types(meter: MeterFields) -> dict[str, str]:
    """The lake columns of a meter's fields and their types."""
    return {
        each.column: NUMBER_TYPE if each.category.numeric else TEXT_TYPE
        for each in (*meter.fields, *meter.derived, *meter.former)
    }


def check_former(connection: duckdb.DuckDBPyConnection, meter: MeterFields) -> None:
    """Refuse columns of fields that the meter has no more, where its table cannot take them.

    Raises:
        Invalid: They are too many, or one differs from another column only in case.
    """
    present = connection.execute(
        "SELECT column_name FROM duckdb_columns() WHERE database_name = 'lake' AND table_name = ?",
        [meter.table],
    ).fetchall()
    others = {*(name for [name] in present), *field_types(meter)} - FIXED_COLUMNS.keys()
    former = others - field_types(replace(meter, former=())).keys()
    if len(former) > FORMER_MAX:
        rule = f"there may be at most {FORMER_MAX} fields that meter {meter.code!r} has no more"
        raise Invalid(FIELDS_KEY, len(former), rule)
    names = {name.casefold(): name for name in sorted(others)}
    for each in meter.former:
        near = names[each.column.casefold()]
        if near != each.column or sum(name.casefold() == near.casefold() for name in others) > 1:
            raise Invalid(
                FIELDS_KEY,
                each.column,
                f"it is nearly {near!r}, which is there already; use that, or another code",
            )


def check_case(added: Iterable[str], present: Iterable[str], meter: str) -> None:
    """Refuse a column that differs from another one only in case: DuckDB does not tell them apart.

    Raises:
        Invalid: There is such a column.
    """
    names = {name.casefold(): name for name in present}
    for name in sorted(added):
        if near := names.get(name.casefold()):
            rule = f"it must be written as {near!r}, which meter {meter!r} had before"
            raise Invalid("dataFields", name, rule)


def missing(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """The statements that give a lake the declared tables and columns that it lacks."""
    present: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns()"
        " WHERE database_name = 'lake' AND table_name NOT LIKE 'm\\_%' ESCAPE '\\'"
    ).fetchall():
        present.setdefault(table, set()).add(column)
    statements = []
    for table, columns in LAKE_TABLES.items():
        if table not in present:
            listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
            statements.append(f"CREATE TABLE lake.{identifier(table)} ({listed})")
            if table == WITHDRAWN_SOURCE and RETRACTION in present:
                statements.append(_WITHDRAWN_BEFORE)
            continue
        statements += [
            f"ALTER TABLE lake.{identifier(table)} ADD COLUMN {identifier(name)} {kind}"
            for name, kind in columns.items()
            if name not in present[table]
        ]
    return statements


def table_names(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of the tables of the attached lake, as the connection's transaction sees them."""
    # Not of `duckdb_tables`, which asks the catalog for the size of each of them.
    rows = connection.execute(
        "SELECT DISTINCT table_name FROM duckdb_columns() WHERE database_name = 'lake'"
    ).fetchall()
    return {row[0] for row in rows}


def columns_at(connection: duckdb.DuckDBPyConnection, table: str, snapshot: int) -> set[str]:
    """The columns that a table had at a snapshot; none if there was no such table."""
    source = f"lake.{identifier(table)} AT (VERSION => {snapshot})"
    try:
        with translate_errors():
            rows = connection.execute(f"DESCRIBE FROM {source}").fetchall()
    except duckdb.CatalogException:
        return set()  # It came later, or never; cheaper than a list of all tables.
    return {row[0] for row in rows}


def newest_snapshot(connection: duckdb.DuckDBPyConnection) -> int:
    """The number of the newest snapshot that a connection, or its transaction, sees."""
    return int(one(connection, "SELECT id FROM lake.current_snapshot()"))


def has_snapshot(connection: duckdb.DuckDBPyConnection, snapshot: int) -> bool:
    """Whether a snapshot is there, and has not expired."""
    query = f"SELECT count(*) FROM ducklake_snapshots('lake') WHERE snapshot_id = {snapshot:d}"
    return bool(one(connection, query))


def one(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    """The one value of a query that has one row."""
    # A result that is not read to its end keeps a transaction open, in the catalog's server, too.
    [row] = connection.execute(query).fetchall()
    return row[0]
