"""What both doors of an analyst have, under the same names: the published file and the live lake.

The one is filled with tables, the other one with views on the lake; what is not of the lake is
tables in both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

import duckdb

from meterlake.model.values import wire
from meterlake.model.values.money import to_lake
from meterlake.model.values.period import parse_instant
from meterlake.model.values.sql import identifier, quote
from meterlake.stages.publish import tables
from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.meters import PublishedMeter
from meterlake.stages.publish.tables import (
    ABOUT_TABLE,
    BILL_TABLES,
    DICTIONARY,
    LAKE_TABLES,
    REJECTED,
    LakeTable,
    Table,
    value_at,
)
from meterlake.stages.publish.views import (
    FIXED_VIEWS,
    LIVE,
    STATE_TABLES,
    View,
    comment,
    usage_views,
)
from meterlake.stores.lake.rejected import ITEMS

if TYPE_CHECKING:
    import pyarrow as pa

# What views read beside the lake.
NEEDED: Final = frozenset({"account", "meter", "aggregation", "compound_aggregation"})


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


def create_statement(table: Table) -> str:
    """The statement that creates a declared table."""
    listed = ", ".join(f"{identifier(column.name)} {column.type}" for column in table.columns)
    return f"CREATE TABLE {identifier(table.name)} ({listed})"


def fill(connection: duckdb.DuckDBPyConnection, table: Table, rows: "pa.Table") -> None:
    """Put rows into a table that is empty."""
    if not rows.num_rows:
        return
    connection.register("documents", rows)
    connection.execute(f"INSERT INTO {identifier(table.name)} SELECT * FROM documents")
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
    listed = ", ".join(map(identifier, columns))
    cells = ", ".join(f"cells[{number}]" for number in range(1, len(columns) + 1))
    # As a literal: for a bound parameter, DuckDB imports pandas where it is installed.
    document = quote(wire.dumps(rows).decode())
    connection.execute(
        f"INSERT INTO {identifier(table)} ({listed}) SELECT {cells} FROM"
        f""" (SELECT unnest(from_json({document}, '[["VARCHAR"]]')) AS cells)"""
    )


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


def state_statements(needs: Callable[[str], bool] = lambda _: True) -> Iterator[str]:
    """What creates everything that is filled from State, and the macros on it.

    Args:
        needs: Whether a table or a macro is needed, by its name. What views read always is.
    """
    for each in ENTITY_TABLES:
        if each.current.name in NEEDED or needs(each.current.name):
            yield create_statement(each.current)
        if needs(each.history.name) or needs(each.macro):
            yield create_statement(each.history)
            yield each.macro_statement
    yield from map(create_statement, (*BILL_TABLES, ABOUT_TABLE, DICTIONARY))


def lake_views() -> Iterator[tuple[str, str]]:
    """Name and query of what is read from the lake beside measurements.

    The lake is attached as `lake`; `account`, `meter` and `aggregation` are there.
    """
    yield from ((each.name, lake_query(each)) for each in LAKE_TABLES)


def lake_query(table: LakeTable) -> str:
    """The query of a table of the lake."""
    return f"{ITEMS} {table.query}" if table is REJECTED else table.query


def views_of(meters: Sequence[PublishedMeter], timezone: tzinfo) -> tuple[View, ...]:
    """The views beside those of the meters; days are those of the organization's time zone."""
    return (*FIXED_VIEWS, *usage_views([each.usage for each in meters], timezone))


def view_statement(name: str, query: str, schema: str = "main") -> str:
    """The statement that creates a view, in place of an older one."""
    return f"CREATE OR REPLACE VIEW {schema}.{identifier(name)} AS {query}"


def lake_columns(connection: duckdb.DuckDBPyConnection) -> dict[str, set[str]]:
    """The columns of every table of the attached lake."""
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'lake'"
    ).fetchall():
        found.setdefault(table, set()).add(column)
    return found


def comments(
    meters: Sequence[PublishedMeter], timezone: tzinfo, lake_kind: Literal["TABLE", "VIEW"]
) -> Iterator[str]:
    """The statements that say of everything what it means.

    Args:
        meters: The meters.
        timezone: The organization's time zone.
        lake_kind: What the tables of the lake are here.
    """
    for table in (*STATE_TABLES, ABOUT_TABLE, DICTIONARY):
        docs = {column.name: column.doc for column in table.columns}
        yield from comment_statements("TABLE", table.name, table.doc, docs)
    for lake_table in LAKE_TABLES:
        yield from comment_statements(
            lake_kind, lake_table.name, lake_table.doc, lake_table.columns
        )
    for each in meters:
        yield from meter_comments(each)
    for view in views_of(meters, timezone):
        yield from comment_statements("VIEW", view.name, view.doc, view.columns)
    for entity in ENTITY_TABLES:
        yield comment("MACRO TABLE", [entity.macro], entity.macro_doc)


def live_comments(meters: Sequence[PublishedMeter], timezone: tzinfo) -> Iterator[str]:
    """The same of the views in the schema for a lake that its reader attaches."""
    for table in LAKE_TABLES:
        yield from comment_statements("VIEW", table.name, table.doc, table.columns, LIVE)
    for meter in meters:
        yield from comment_statements("VIEW", meter.name, meter.doc, meter.docs, LIVE)
    for view in views_of(meters, timezone):
        yield from comment_statements("VIEW", view.name, view.doc, view.columns, LIVE)


def meter_comments(meter: PublishedMeter) -> Iterator[str]:
    """The statements that say what the view of a meter is."""
    yield from comment_statements("VIEW", meter.name, meter.doc, meter.docs)


def comment_statements(
    kind: str, name: str, doc: str, columns: Mapping[str, str], schema: str = "main"
) -> Iterator[str]:
    """The statements that say what a table or a view and its columns are."""
    yield comment(kind, [schema, name], doc)
    yield from (comment("COLUMN", [schema, name, column], doc) for column, doc in columns.items())


def run(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Run statements at once, which is faster than one by one."""
    connection.execute(";".join(statements))


def fill_dictionary(connection: duckdb.DuckDBPyConnection) -> None:
    """Write down the comments as rows."""
    connection.execute(_DICTIONARY_ROWS)


_DICTIONARY_ROWS: Final = """
    INSERT INTO dictionary
    SELECT table_name, NULL, 'table', comment FROM duckdb_tables()
    WHERE database_name = current_database() AND schema_name = 'main'
    UNION ALL
    SELECT view_name, NULL, 'view', comment FROM duckdb_views()
    WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
    UNION ALL
    SELECT function_name, NULL, 'macro', comment FROM duckdb_functions()
    WHERE database_name = current_database() AND NOT internal
    UNION ALL
    SELECT table_name, column_name, data_type, comment FROM (
        SELECT * FROM duckdb_columns()
        WHERE database_name = current_database() AND schema_name = 'main' AND NOT internal
        ORDER BY table_name, column_index
    )"""
