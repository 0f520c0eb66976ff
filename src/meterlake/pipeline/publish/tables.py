"""What both doors of an analyst have, under the same names: the published file and the live lake.

The one is filled with tables, the other one with views on the lake; what is not of the lake is
tables in both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb

from meterlake.model.values import wire
from meterlake.model.values.money import to_lake
from meterlake.model.values.period import parse_instant
from meterlake.stages.publish import tables
from meterlake.stages.publish.statements import (
    DICTIONARY_ROWS,
    LAKE_COLUMNS,
    insert_all,
    insert_texts,
)
from meterlake.stages.publish.tables import LAKE_TABLES, REJECTED, LakeTable, Table, value_at
from meterlake.stores.lake.rejected import ITEMS

if TYPE_CHECKING:
    import pyarrow as pa


def rows_of(table: Table, documents: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """Documents as the columns of a declared table."""
    import pyarrow as pa  # noqa: PLC0415 - takes longer than most queries of `sql`

    arrow = {
        tables.NUMBER: pa.decimal128(38, 12),
        tables.TEXT: pa.string(),
        tables.INSTANT: pa.timestamp("us"),
        tables.DAY: pa.date32(),
        tables.INTEGER: pa.int64(),
        tables.FLAG: pa.bool_(),
        tables.JSON: pa.string(),
    }
    columns = {
        column.name: pa.array(
            [_convert(value_at(each, column.path), column.type) for each in documents],
            arrow[column.type],
        )
        for column in table.columns
    }
    return pa.table(columns)


def fill(connection: duckdb.DuckDBPyConnection, table: Table, rows: "pa.Table") -> None:
    """Put rows into a table that is empty."""
    if not rows.num_rows:
        return
    connection.register("documents", rows)
    connection.execute(insert_all(table, "documents"))
    connection.unregister("documents")


def fill_few(
    connection: duckdb.DuckDBPyConnection, table: Table, documents: Sequence[Mapping[str, Any]]
) -> None:
    """Put documents into a declared table that is empty, without Arrow: thousands, not millions."""
    names = [column.name for column in table.columns]
    rows = [
        [_text(_convert(value_at(each, column.path), column.type)) for column in table.columns]
        for each in documents
    ]
    insert(connection, table.name, names, rows)


def insert(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str | None]],
) -> None:
    """Insert rows of texts, which become what the columns are."""
    if not rows:
        return
    connection.execute(insert_texts(table, columns, wire.dumps(rows).decode()))


def _text(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case datetime() | date():
            return value.isoformat()
        case _:
            return str(value)


def _convert(value: Any, kind: str) -> Any:
    """A value of a document as its column holds it; numbers are rounded to 12 decimals."""
    if value is None:
        return None
    match kind:
        case tables.NUMBER:
            return to_lake(Decimal(value))
        case tables.INSTANT:
            instant = value if isinstance(value, datetime) else parse_instant(value)
            return None if instant is None else instant.replace(tzinfo=None)
        case tables.DAY:
            return date.fromisoformat(value) if isinstance(value, str) else value
        case tables.JSON:
            return wire.dumps_sorted(value)
        case _:
            return value


def lake_views() -> Iterator[tuple[str, str]]:
    """Name and query of what is read from the lake beside measurements.

    The lake is attached as `lake`; `account`, `meter` and `aggregation` are there.
    """
    yield from ((each.name, lake_query(each)) for each in LAKE_TABLES)


def lake_query(table: LakeTable) -> str:
    """The query of a table of the lake."""
    return f"{ITEMS} {table.query}" if table is REJECTED else table.query


def lake_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """The columns of every table of the attached lake."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(LAKE_COLUMNS).fetchall():
        found.setdefault(table, set()).add(column)
    return found


def run(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Run statements at once, which is faster than one by one."""
    connection.execute(";".join(statements))


def fill_dictionary(connection: duckdb.DuckDBPyConnection) -> None:
    """Write down the comments as rows."""
    connection.execute(DICTIONARY_ROWS)
