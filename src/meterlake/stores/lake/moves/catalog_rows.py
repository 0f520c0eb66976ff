"""The rows of a lake's catalog, copied from one database to another as they are.

DuckLake's own tables are ordinary ones. SQLite and PostgreSQL keep some columns in other types: a
value travels as a text that both of them mean, and has one digest wherever it is.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Final

import duckdb

from meterlake.model.errors import CannotMove
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier, quote
from meterlake.stores.lake.connection import interrupting, open_duckdb, translate_errors
from meterlake.stores.lake.lake import Lake

Columns = Mapping[str, str]
_INLINED: Final = "ducklake_inlined_data_"
_DELETED: Final = "ducklake_inlined_delete_"
_BATCH: Final = 100_000
# What DuckLake adds to the columns of a table, and what it notes of deleted rows.
_FIXED: Final = ("row_id", "begin_snapshot", "end_snapshot", "file_id")
# Types whose texts may differ though they mean the same.
_EXACT: Final = ("TIMESTAMP WITH TIME ZONE", "UUID")
_TABLES: Final = """
    SELECT table_name, column_name, data_type FROM duckdb_columns()
    WHERE database_name = 'metadata' AND schema_name = ? ORDER BY table_name, column_index"""
_LAKE_TYPES: Final = """
    SELECT i.table_name, c.column_name, c.column_type
    FROM {schema}.ducklake_inlined_data_tables i JOIN {schema}.ducklake_column c USING (table_id)
    WHERE c.parent_column IS NULL GROUP BY ALL"""
_DIGEST: Final = """
    SELECT count(*), coalesce(sum(md5_number_lower(row)), 0), coalesce(sum(md5_number_upper(row)), 0)
    FROM (SELECT concat({texts}) AS row FROM {table})"""
_FILES: Final = """
    SELECT s.path || t.path || f.path,
        (f.path_is_relative AND t.path_is_relative AND s.path_is_relative)::BOOLEAN,
        max(f.file_size_bytes)
    FROM (
        SELECT table_id, path, path_is_relative::BOOLEAN AS path_is_relative, file_size_bytes
        FROM {schema}.ducklake_data_file
        UNION ALL
        SELECT table_id, path, path_is_relative::BOOLEAN, file_size_bytes
        FROM {schema}.ducklake_delete_file
    ) f
    JOIN (
        SELECT DISTINCT table_id, schema_id, path, path_is_relative::BOOLEAN AS path_is_relative
        FROM {schema}.ducklake_table
    ) t USING (table_id)
    JOIN (
        SELECT DISTINCT schema_id, path, path_is_relative::BOOLEAN AS path_is_relative
        FROM {schema}.ducklake_schema
    ) s USING (schema_id)
    GROUP BY ALL"""
_REPLACED: Final = """
    SELECT path, path_is_relative::BOOLEAN
    FROM {schema}.ducklake_files_scheduled_for_deletion"""


@dataclass(frozen=True, slots=True)
class RowsDigest:
    """How many rows a table has, and a digest of them in whatever order."""

    rows: int
    low: int
    high: int


class CatalogRows:
    """The tables of a catalog, as its database has them."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, lake: Lake) -> None:
        self.connection = connection
        self.schema = f"metadata.{identifier(lake.catalog.schema)}"
        self.types = lake.catalog.inlined_types
        self.tables: dict[str, dict[str, str]] = {}
        for table, column, kind in connection.execute(_TABLES, [lake.catalog.schema]).fetchall():
            if table.startswith("ducklake_"):
                self.tables.setdefault(table, {})[column] = kind

    def files(self) -> dict[str, int | None]:
        """The size of each file that a snapshot has, by its path; None if it was replaced.

        Raises:
            CannotMove: One lies outside of the lake's folder.
        """
        replaced = self.connection.execute(_REPLACED.format(schema=self.schema)).fetchall()
        live = self.connection.execute(_FILES.format(schema=self.schema)).fetchall()
        for path, is_relative, *_ in (*live, *replaced):
            if not is_relative:
                raise CannotMove(
                    f"{path} is a file outside of the folder of its lake; the lake stays where it is: report this"
                )
        return dict.fromkeys((path for path, _ in replaced), None) | {
            path: size for path, _, size in live
        }

    def inlined_columns(self) -> dict[str, dict[str, str]]:
        """The types, as a lake has them, of the columns of all tables with inlined rows."""
        found: dict[str, dict[str, str]] = {}
        for table, column, kind in self.connection.execute(
            _LAKE_TYPES.format(schema=self.schema)
        ).fetchall():
            if found.setdefault(table, {}).setdefault(column, kind) != kind:
                raise CannotMove(
                    f"column {column!r} of {table} had two types; the lake stays where it is: report this"
                )
        return found

    def create_inlined(self, source: "CatalogRows") -> None:
        """Make the tables of inlined rows that another catalog has."""
        lake_types = source.inlined_columns()
        for table, columns in source.tables.items():
            if table in self.tables:
                continue
            known = lake_types.get(table, {}) | dict.fromkeys(_FIXED, "int64")
            own = {name: self._inlined_type(table, name, known) for name in columns}
            listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in own.items())
            self.connection.execute(f"CREATE TABLE {self.schema}.{identifier(table)} ({listed})")
            self.tables[table] = own

    def _inlined_type(self, table: str, column: str, known: Columns) -> str:
        kind = known.get(column, "unknown")
        if kind not in self.types:
            raise CannotMove(
                f"type {kind} of column {column!r} of {table} is not known; the lake stays where it is: report this"
            )
        return self.types[kind]

    def replace(self, table: str, source: "CatalogRows", data_path: str) -> None:
        """Replace the rows of a table by those that another catalog has."""
        own = self.tables[table]
        query = source.query_texts(table, own, data_path)
        rows = source.connection.execute(query).to_arrow_reader(_BATCH)
        values = ", ".join(map(_to_value, own.values(), own))
        names = ", ".join(map(identifier, own))
        self.connection.execute(f"DELETE FROM {self.schema}.{identifier(table)}")
        self.connection.register("moved_rows", rows)
        self.connection.execute(
            f"INSERT INTO {self.schema}.{identifier(table)} ({names})"
            f" SELECT {values} FROM moved_rows"
        )
        self.connection.unregister("moved_rows")

    def query_texts(self, table: str, other: Columns, data_path: str) -> str:
        """The query for a table's rows as texts.

        Args:
            table: The table.
            other: The types of the same columns in the other catalog.
            data_path: What stands there as the place of the files.
        """
        own = self.tables[table]
        listed = ", ".join(
            f"{_to_text(_column(table, name, data_path), own[name], kind)} AS {identifier(name)}"
            for name, kind in other.items()
        )
        return f"SELECT {listed} FROM {self.schema}.{identifier(table)}"

    def digest(self, table: str, other: Columns, data_path: str) -> RowsDigest:
        """Count a table's rows and digest their texts; see `query_texts`."""
        texts = ", ".join(
            f"coalesce(length({identifier(name)}) || ':' || {identifier(name)}, '~')"
            for name in other
        )
        rows = f"({self.query_texts(table, other, data_path)})"
        query = _DIGEST.format(texts=texts, table=rows)
        found = self.connection.execute(query).fetchone()
        assert found is not None
        return RowsDigest(*map(int, found))

    def count(self) -> int:
        """The rows of all tables."""
        each = (
            f"SELECT count(*) AS n FROM {self.schema}.{identifier(name)}" for name in self.tables
        )
        found = self.connection.execute(f"SELECT sum(n)::BIGINT FROM ({' UNION ALL '.join(each)})")
        row = found.fetchone()
        return int(row[0] or 0) if row else 0


@contextmanager
def open_catalog(lake: Lake, *, read_only: bool = True) -> Iterator[CatalogRows]:
    """Open the catalog of a lake as a plain database.

    Raises:
        Unavailable: The disk or the database failed.
    """
    extensions = (lake.catalog.extension,)
    with (
        translate_errors(),
        lake.catalog.reading(),
        closing(
            open_duckdb(lake.memory, lake.threads, lake.folder / "spill", extensions)
        ) as opened,
        interrupting(opened),
    ):
        for statement in lake.catalog.secrets():
            opened.execute(statement)
        opened.execute(lake.catalog.database_statement(read_only=read_only))
        yield CatalogRows(opened, lake)


def copy_rows(source: CatalogRows, target: CatalogRows, data_path: str) -> None:
    """Replace all rows of a catalog that DuckLake just made, in one transaction.

    Args:
        source: What is copied.
        target: A catalog without a snapshot of its own.
        data_path: Where the files of the target are.

    Raises:
        CannotMove: The catalogs are of different versions of DuckLake, or a type is not known.
    """
    _check_alike(source, target)
    target.connection.execute("BEGIN")
    target.create_inlined(source)
    for table in source.tables:
        target.replace(table, source, data_path)
        mark_step("move.rows_inserted")
    target.connection.execute("COMMIT")


def compare_rows(source: CatalogRows, target: CatalogRows, data_path: str) -> Iterator[str]:
    """What differs between a catalog and its copy, table by table.

    Yields:
        A table, and the rows of both.
    """
    for table in sorted(source.tables.keys() | target.tables.keys()):
        if source.tables.get(table, {}).keys() != target.tables.get(table, {}).keys():
            yield f"{table}: other columns"
            continue
        theirs = source.digest(table, target.tables[table], data_path)
        ours = target.digest(table, source.tables[table], data_path)
        if theirs != ours:
            yield f"{table}: {theirs.rows:,} rows, {ours.rows:,} of them copied, or other ones"


def _check_alike(source: CatalogRows, target: CatalogRows) -> None:
    inlined = (_INLINED, _DELETED)
    for table in sorted(source.tables.keys() | target.tables.keys()):
        theirs, ours = source.tables.get(table, {}), target.tables.get(table, {})
        is_fixed = not table.startswith(inlined) or table == f"{_INLINED}tables"
        if is_fixed and theirs.keys() != ours.keys():
            raise CannotMove(
                f"there is a catalog of another version of DuckLake ({table}); name an empty database"
            )


def _column(table: str, name: str, data_path: str) -> str:
    column = identifier(name)
    if table == "ducklake_metadata" and name == "value":
        return f"CASE WHEN \"key\" = 'data_path' THEN {quote(data_path)} ELSE {column} END"
    return column


def _to_text(value: str, own: str, other: str) -> str:
    """A text of a value that means the same in both types."""
    if own == "BLOB":
        return f"decode({value})"
    kinds = {own, other}
    for kind in sorted(kinds):
        if kind in _EXACT or kind.startswith("DECIMAL"):
            return f"CAST(CAST({value} AS {kind}) AS VARCHAR)"
    if "BOOLEAN" in kinds:
        return f"CAST(CAST({value} AS TINYINT) AS VARCHAR)"
    return f"CAST({value} AS VARCHAR)"


def _to_value(kind: str, column: str) -> str:
    name = identifier(column)
    return f"encode({name})" if kind == "BLOB" else f"CAST({name} AS {kind})"
