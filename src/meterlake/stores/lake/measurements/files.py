"""The files that a snapshot of a lake has measurements in, from its catalog alone."""

from collections.abc import Iterator
from typing import Final

import duckdb

from meterlake.model.values.sql import identifier

_DATABASE: Final = "__ducklake_metadata_lake"
_SEEN: Final = "begin_snapshot <= $snapshot AND (end_snapshot IS NULL OR end_snapshot > $snapshot)"
_FILES: Final = f"""
    SELECT DISTINCT CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END
    FROM (
        SELECT table_id, path, path_is_relative FROM {{catalog}}.ducklake_data_file WHERE {_SEEN}
        UNION ALL
        SELECT table_id, path, path_is_relative FROM {{catalog}}.ducklake_delete_file WHERE {_SEEN}
    ) f
    JOIN (SELECT DISTINCT table_id, schema_id, path, table_name FROM {{catalog}}.ducklake_table) t
        USING (table_id)
    JOIN (SELECT DISTINCT schema_id, path FROM {{catalog}}.ducklake_schema) s USING (schema_id)
    WHERE starts_with(t.table_name, 'm_')"""


def measurement_files(
    connection: duckdb.DuckDBPyConnection, snapshot: int, schema: str, root: str
) -> Iterator[str]:
    """The paths of the files of a snapshot, below the root of the lake's files.

    Args:
        connection: Where the lake is attached as `lake`, within the reader's gate.
        snapshot: The snapshot.
        schema: Where the catalog has DuckLake's own tables.
        root: Of the lake's files, with a slash at its end.
    """
    catalog = f"{_DATABASE}.{identifier(schema)}"
    rows = connection.execute(_FILES.format(catalog=catalog), {"snapshot": snapshot}).fetchall()
    for (path,) in sorted(rows):
        yield str(path).removeprefix(root)
