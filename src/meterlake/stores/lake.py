"""The lake of one organization: Parquet files under a DuckLake catalog, one writer at a time.

A commit registers files that were written and synced before it, and inserts the few rows that
live in the catalog itself, all in one transaction.
"""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
from filelock import FileLock, Timeout

from meterlake.model.errors import Busy, MeterlakeError, NotFound, Unavailable
from meterlake.model.failpoint import reached
from meterlake.model.measurement import (
    FIXED_COLUMNS,
    LAKE_TABLES,
    NUMBER_TYPE,
    TEXT_TYPE,
    MeterFields,
)
from meterlake.stores.durable import disk, make_folder, move, sync
from meterlake.stores.lake_connection import attach_statement, identifier, open_duckdb, quoted

_MAIN: Final = "main"


class Lake:
    """One organization's lake, below one folder. Use from one thread at a time."""

    def __init__(self, folder: Path, memory: str = "700MB", threads: int = 2) -> None:
        self.folder = folder.absolute()
        self.memory = memory
        self.threads = threads
        self._writer: duckdb.DuckDBPyConnection | None = None
        self._reader: duckdb.DuckDBPyConnection | None = None

    @property
    def catalog(self) -> Path:
        """The catalog's file."""
        return self.folder / "catalog.sqlite"

    @property
    def data(self) -> Path:
        """The folder of the Parquet files."""
        return self.folder / "data"

    @property
    def staging(self) -> Path:
        """Where files are prepared before a commit; on the file system of `data`."""
        return self.folder / "staging"

    @property
    def cache(self) -> Path:
        """What can be built again from the lake."""
        return self.folder / "cache"

    def create(self) -> None:
        """Create the lake and its tables where they do not exist yet; safe to repeat."""
        for folder in (self.data, self.staging, self.cache):
            make_folder(folder)
        with self.lock(), self.transaction() as connection:
            for table, columns in LAKE_TABLES.items():
                listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in columns.items())
                connection.execute(
                    f"CREATE TABLE IF NOT EXISTS lake.{identifier(table)} ({listed})"
                )
        sync(self.folder)

    @contextmanager
    def lock(self, timeout_s: float = -1) -> Iterator[None]:
        """Hold the lake's writer lock; the system frees it when the process dies.

        Args:
            timeout_s: How long to wait for another writer; for ever when negative.

        Raises:
            Busy: Another writer held it all that time.
        """
        lock = FileLock(self.folder / "writer.lock", timeout=timeout_s)
        try:
            with disk():
                lock.acquire()
        except Timeout:
            raise Busy("lake", f"another process writes to {self.folder.name}") from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run statements as one transaction, under the lock; `lake` is the attached lake.

        Raises:
            Unavailable: The disk, the memory or the catalog failed.
        """
        connection = self._writing()
        with translated():
            connection.execute("BEGIN")
            try:
                yield connection
                reached("lake.before_commit")
                connection.execute("COMMIT")
            except BaseException:
                self._rolled_back(connection)
                raise
        reached("lake.after_commit")

    def _rolled_back(self, connection: duckdb.DuckDBPyConnection) -> None:
        try:
            connection.execute("ROLLBACK")
        except duckdb.Error:
            # The connection is beyond repair; the next use opens a new one.
            connection.close()
            self._writer = None

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor with the lake attached read-only as `lake`; readers never wait.

        Raises:
            NotFound: The lake does not exist.
        """
        self._check_exists()
        # Loading the extensions costs more than most queries: a writer reads where it writes.
        cursor = (self._writer or self._reading()).cursor()
        try:
            with translated():
                cursor.execute("USE lake")
                yield cursor
        finally:
            cursor.close()

    def open_to_write(self) -> None:
        """Open the writing connection now, so that reads before the first write use it too.

        Raises:
            NotFound: The lake does not exist.
        """
        self._check_exists()
        self._writing()

    def snapshot(self) -> int:
        """The number of the newest snapshot."""
        with self.reader() as connection:
            return int(_one(connection, "SELECT id FROM lake.current_snapshot()"))

    def tables(self) -> set[str]:
        """The names of the lake's tables."""
        with self.reader() as connection:
            return table_names(connection)

    def close(self) -> None:
        """Close the connections; the lake can be used again afterwards."""
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.close()
        self._writer = self._reader = None

    def _check_exists(self) -> None:
        if not self.catalog.exists():
            raise NotFound("lake", str(self.folder))

    def _reading(self) -> duckdb.DuckDBPyConnection:
        if self._reader is None:
            self._reader = self._attached(read_only=True)
        return self._reader

    def _writing(self) -> duckdb.DuckDBPyConnection:
        if self._writer is None:
            self._writer = self._attached(read_only=False)
        return self._writer

    def _attached(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        with translated():
            connection = open_duckdb(self.memory, self.threads, self.folder / "spill")
            connection.execute(attach_statement(self.catalog, self.data, read_only=read_only))
            return connection

    def ensure_meter_table(self, connection: duckdb.DuckDBPyConnection, meter: MeterFields) -> None:
        """Create a meter's table, or add the columns of its new fields, within a transaction."""
        wanted = FIXED_COLUMNS | field_types(meter)
        table = f"lake.{identifier(meter.table)}"
        if meter.table not in table_names(connection):
            listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in wanted.items())
            connection.execute(f"CREATE TABLE {table} ({listed})")
            connection.execute(f"ALTER TABLE {table} SET PARTITIONED BY (year(ts), month(ts))")
            return
        present = {row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()}
        for name, kind in wanted.items():
            if name not in present:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {identifier(name)} {kind}")

    def register(
        self, connection: duckdb.DuckDBPyConnection, table: str, staged: Path, name: str
    ) -> Path:
        """Make a staged Parquet file, synced already, part of a table within a transaction.

        Args:
            connection: The transaction's connection.
            table: The table.
            staged: The file, on the file system of the lake.
            name: Its path below the table's folder: `year=2026/month=10/<unique>.parquet`.

        Returns:
            Where the file is now.
        """
        target = self.data / _MAIN / table / name
        move(staged, target)
        reached("lake.file_moved")
        connection.execute(
            f"CALL ducklake_add_data_files('lake', {quoted(table)}, {quoted(target)},"
            " hive_partitioning => true, allow_missing => true)"
        )
        return target

    def insert(
        self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert a few rows of one of the declared tables, in the order of its columns."""
        marks = ", ".join("?" * len(LAKE_TABLES[table]))
        connection.executemany(f"INSERT INTO lake.{identifier(table)} VALUES ({marks})", rows)

    def new_staging(self, name: str) -> Path:
        """An empty folder to prepare files in; what an earlier attempt left there is gone."""
        self.drop_staging(name)
        make_folder(self.staging / name)
        return self.staging / name

    def drop_staging(self, name: str) -> None:
        """Remove such a folder and what is left in it."""
        shutil.rmtree(self.staging / name, ignore_errors=True)


def field_types(meter: MeterFields) -> dict[str, str]:
    """The lake columns of a meter's fields and their types."""
    return {
        each.column: NUMBER_TYPE if each.category.numeric else TEXT_TYPE for each in meter.fields
    }


def table_names(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The names of the tables of the attached lake, as the connection's transaction sees them."""
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake'"
    ).fetchall()
    return {row[0] for row in rows}


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    assert row is not None, query
    return row[0]


_WORLD: Final = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException)
# What the catalog's SQLite says comes through DuckDB as errors of any kind.
_CATALOG: Final = re.compile(
    "disk I/O error|database or disk is full|readonly database|unable to open database"
    "|database is locked|database disk image is malformed"
)


@contextmanager
def translated() -> Iterator[None]:
    """Turn DuckDB's errors about disk, memory and locks into ours.

    Raises:
        Unavailable: The world failed.
    """
    try:
        with disk():
            yield
    except MeterlakeError:
        raise
    except duckdb.Error as error:
        if isinstance(error, _WORLD) or _CATALOG.search(str(error)):
            raise Unavailable("lake", _first_line(error)) from error
        raise


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
