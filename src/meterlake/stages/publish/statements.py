"""The statements that make what both doors of an analyst have: tables, views, and their meanings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Final, Literal

from meterlake.model.values.sql import identifier, quote
from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.meters import PublishedMeter
from meterlake.stages.publish.tables import (
    ABOUT_TABLE,
    BILL_TABLES,
    DICTIONARY,
    LAKE_TABLES,
    Table,
)
from meterlake.stages.publish.views import (
    FIXED_VIEWS,
    LIVE,
    STATE_TABLES,
    View,
    comment,
    usage_views,
)

# What views read beside the lake.
NEEDED: Final = frozenset({"account", "meter", "aggregation", "compound_aggregation"})
LAKE_COLUMNS: Final = (
    "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'lake'"
)
# The comments as rows.
DICTIONARY_ROWS: Final = """
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
# Name, column (NULL for the table or view itself) and meaning of everything in a file.
MEANINGS: Final = """
    SELECT name, column_name, meaning FROM dictionary WHERE type <> 'macro'
    ORDER BY name, column_name NULLS FIRST"""
# What a file consists of but for the months of meters.
LEFT_OVER: Final = f"""
    SELECT 'VIEW', schema_name, view_name FROM duckdb_views()
    WHERE database_name = 'published' AND schema_name IN ('main', '{LIVE}') AND NOT internal
    UNION ALL
    SELECT 'TABLE', schema_name, table_name FROM duckdb_tables()
    WHERE database_name = 'published' AND schema_name = 'main'
    UNION ALL
    SELECT 'MACRO TABLE', schema_name, function_name FROM duckdb_functions()
    WHERE database_name = 'published' AND NOT internal"""
TABLE_NAMES: Final = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
PUBLICATION: Final = "SELECT publication FROM about"
DIGEST: Final = "SELECT digest FROM months.contents WHERE name = ?"


def create_statement(table: Table) -> str:
    """The statement that creates a declared table."""
    listed = ", ".join(f"{identifier(column.name)} {column.type}" for column in table.columns)
    return f"CREATE TABLE {identifier(table.name)} ({listed})"


def insert_all(table: Table, source: str) -> str:
    """The statement that puts all rows of a relation into a declared table."""
    return f"INSERT INTO {identifier(table.name)} SELECT * FROM {source}"


def insert_texts(table: str, columns: Sequence[str], rows: str) -> str:
    """The statement that inserts rows of texts, which become what the columns are.

    Args:
        table: Where to.
        columns: The columns that have a text in each row.
        rows: The rows as JSON.
    """
    listed = ", ".join(map(identifier, columns))
    cells = ", ".join(f"cells[{number}]" for number in range(1, len(columns) + 1))
    # As a literal: for a bound parameter, DuckDB imports pandas where it is installed.
    return (
        f"INSERT INTO {identifier(table)} ({listed}) SELECT {cells} FROM"
        f""" (SELECT unnest(from_json({quote(rows)}, '[["VARCHAR"]]')) AS cells)"""
    )


def count_rows(table: str) -> str:
    """The query that counts the rows of a table."""
    return f"SELECT count(*) FROM {identifier(table)}"


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


def views_of(meters: Sequence[PublishedMeter], timezone: tzinfo) -> tuple[View, ...]:
    """The views beside those of the meters; days are those of the organization's time zone."""
    return (*FIXED_VIEWS, *usage_views([each.usage for each in meters], timezone))


def view_statement(name: str, query: str, schema: str = "main") -> str:
    """The statement that creates a view, in place of an older one."""
    return f"CREATE OR REPLACE VIEW {schema}.{identifier(name)} AS {query}"


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
