"""What the months of a lake's tables are made of, from its catalog alone: no data is read.

Two looks at a month that give the same parts saw the same rows. Merging files gives other parts for
the same rows; that costs work, never truth.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final

import duckdb

from meterlake.model.values.sql import identifier

_DATABASE: Final = "__ducklake_metadata_lake"
_SEEN: Final = "begin_snapshot <= $snapshot AND (end_snapshot IS NULL OR end_snapshot > $snapshot)"
# A merged file may hold rows of later snapshots, which an earlier one does not see.
_UP_TO: Final = "least(coalesce(partial_max, 0), $snapshot)"
_FILES: Final = f"""
    SELECT t.table_name, f.data_file_id, f.path,
        f.data_file_id || ':' || least(coalesce(f.partial_max, 0), $snapshot)
            || coalesce('-' || d.parts, '')
    FROM {{catalog}}.ducklake_data_file f
    JOIN {{catalog}}.ducklake_table t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    LEFT JOIN (
        SELECT data_file_id,
            string_agg(delete_file_id || ':' || {_UP_TO}, '-' ORDER BY delete_file_id) AS parts
        FROM {{catalog}}.ducklake_delete_file WHERE {_SEEN} GROUP BY data_file_id
    ) d USING (data_file_id)
    WHERE f.begin_snapshot <= $snapshot
        AND (f.end_snapshot IS NULL OR f.end_snapshot > $snapshot)"""
_TABLE_IDS: Final = """
    SELECT table_id, table_name FROM {catalog}.ducklake_table WHERE end_snapshot IS NULL"""
_INLINED: Final = """
    SELECT i.table_name, t.table_name FROM {catalog}.ducklake_inlined_data_tables i
    JOIN {catalog}.ducklake_table t ON t.table_id = i.table_id AND t.end_snapshot IS NULL"""
_ROWS: Final = f"""
    SELECT {{month}}, string_agg(row_id::VARCHAR, ',' ORDER BY row_id)
    FROM {{catalog}}.{{table}} WHERE {_SEEN} GROUP BY ALL"""
_DELETED: Final = """
    SELECT file_id, string_agg(row_id::VARCHAR, ',' ORDER BY row_id)
    FROM {catalog}.{table} WHERE begin_snapshot <= $snapshot GROUP BY ALL"""

# By table and month; the month None is of files that do not tell theirs.
Parts = dict[tuple[str, str | None], list[str]]


def month_parts(
    connection: duckdb.DuckDBPyConnection,
    snapshot: int,
    tables: Collection[str],
    month_of: Callable[[str], str | None] | None,
    schema: str,
) -> Parts:
    """The parts of every month of some tables.

    Args:
        connection: Where the lake is attached as `lake`, within the reader's gate.
        snapshot: The snapshot that is meant.
        tables: The names of the tables.
        month_of: The month of a file by its path below the table's folder; the tables have a column
            `ts`. None where tables are meant as a whole.
        schema: Where the catalog has DuckLake's own tables.
    """
    catalog = f"{_DATABASE}.{identifier(schema)}"
    deleted = _deleted_rows(connection, catalog, snapshot, tables)
    found: Parts = defaultdict(list)
    for table, file, path, part in connection.execute(
        _FILES.format(catalog=catalog), {"snapshot": snapshot}
    ).fetchall():
        if table in tables:
            more = deleted.get((table, file), "")
            found[table, month_of(path) if month_of else None].append(f"f{part}{more}")
    month_of_row = "CAST(ts AS VARCHAR)[:7]" if month_of else "NULL"
    inlined = _inlined_parts(connection, catalog, snapshot, tables, month_of_row)
    for table, month, rows in inlined:
        found[table, month].append(rows)
    return found


def _inlined_parts(
    connection: duckdb.DuckDBPyConnection,
    catalog: str,
    snapshot: int,
    tables: Collection[str],
    month: str,
) -> Iterator[tuple[str, str | None, str]]:
    for inlined, table in connection.execute(_INLINED.format(catalog=catalog)).fetchall():
        if table not in tables:
            continue
        query = _ROWS.format(catalog=catalog, table=identifier(inlined), month=month)
        for found, rows in connection.execute(query, {"snapshot": snapshot}).fetchall():
            yield table, found, f"r{rows}"


def _deleted_rows(
    connection: duckdb.DuckDBPyConnection, catalog: str, snapshot: int, tables: Collection[str]
) -> dict[tuple[str, int], str]:
    """Rows of files that the catalog itself knows to be deleted."""
    found = {}
    for table_id, table in connection.execute(_TABLE_IDS.format(catalog=catalog)).fetchall():
        if table not in tables:
            continue
        query = _DELETED.format(catalog=catalog, table=f"ducklake_inlined_delete_{table_id}")
        # The first deletion makes the table, and no list of tables has those of the catalog.
        with suppress(duckdb.CatalogException):
            for file, rows in connection.execute(query, {"snapshot": snapshot}).fetchall():
                found[table, file] = f"-d{rows}"
    return found
