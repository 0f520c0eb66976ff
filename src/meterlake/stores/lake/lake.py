"""The lake of one organization: Parquet files under a DuckLake catalog, one writer at a time.

Where its catalog and its files are, the room `backends` knows.

A commit registers files that were written and synced before it, and inserts the few rows that
live in the catalog itself, all in one transaction.
"""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import duckdb

from meterlake.model.errors import Busy, Invalid, NotFound, Unavailable
from meterlake.model.measurements.measurement import FIXED_COLUMNS, LAKE_TABLES, MeterFields
from meterlake.model.measurements.receipt import UNKNOWN, History
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier, quote
from meterlake.stores.files.durable import make_folder, sync
from meterlake.stores.lake.backends.catalog import Catalog, SqliteCatalog
from meterlake.stores.lake.backends.data_files import DataFiles, FolderFiles
from meterlake.stores.lake.connection import (
    INLINED_ROWS_MAX,
    interrupting,
    is_invalidated,
    load_statements,
    open_cursor,
    open_duckdb,
    translate_errors,
)
from meterlake.stores.lake.tables import (
    check_case,
    check_former,
    field_types,
    missing,
    newest_snapshot,
    one,
    table_names,
)

if TYPE_CHECKING:
    from meterlake.stores.lake.known_sources import KnownSources
    from meterlake.stores.lake.known_uids import KnownUids
    from meterlake.stores.lake.uid_shards import UidShards

_MAIN: Final = "main"
_UPGRADE_WAIT_S: Final = 10
# For less than that, threads cost more than they save: they spin while they wait for each other.
_SINGLE_THREADED_MAX: Final = 50_000
# After so many commits the writing connection is opened anew.
COMMITS_MAX: Final = 1000
# How long a process may work with a former number of shards.
_SHARDS_KNOWN_S: Final = 10.0


class Lake:
    """One organization's lake. Use from one thread at a time.

    Args:
        folder: What it has on this machine.
        memory: What one DuckDB connection may use, such as `700MB`.
        threads: How many threads queries use.
        catalog: Where its catalog is; SQLite in the folder if None.
        files: Where its files are; in the folder if None.
    """

    def __init__(
        self,
        folder: Path,
        memory: str = "700MB",
        threads: int = 2,
        *,
        catalog: Catalog | None = None,
        files: DataFiles | None = None,
    ) -> None:
        self.folder = folder.absolute()
        self.catalog = catalog or SqliteCatalog(self.folder)
        self.files = files or FolderFiles(self.folder / "data")
        self.memory = memory
        self.threads = threads
        self._writer: duckdb.DuckDBPyConnection | None = None
        self._reader: duckdb.DuckDBPyConnection | None = None
        self._locked = False
        self._writer_threads = threads
        self._commits = 0
        self._working_now = 0
        # How many uses of the connections are under way.
        self._uses = 0
        self._counting = Lock()
        # Several threads that read open one connection.
        self._opening = Lock()
        # Whether it is known to have all declared tables and columns.
        self._complete = False
        # Columns that meters' tables are known to have; none ever goes away.
        self._columns: dict[str, set[str]] = {}
        # How many shards it has, and until when that need not be read again.
        self._shards = (1, 0.0)

    @cached_property
    def sources(self) -> "KnownSources":
        """What is known of the ledger's sources; only what commits asks for it."""
        from meterlake.stores.lake.known_sources import KnownSources  # noqa: PLC0415 - loads Polars

        return KnownSources(self.identity)

    @property
    def uids(self) -> "KnownUids | UidShards":
        """Which uids the lake may hold; only what commits asks for it."""
        count = self.shards
        return self._whole_uids if count == 1 else self.sharded_uids(count)

    @cached_property
    def _whole_uids(self) -> "KnownUids":
        from meterlake.stores.lake.known_uids import KnownUids  # noqa: PLC0415 - loads Polars

        return KnownUids(self.cache, self.identity)

    def sharded_uids(self, count: int) -> "UidShards":
        """The index of its uids in so many shards, whether it has as many or not."""
        from meterlake.stores.lake.uid_shards import UidShards  # noqa: PLC0415 - loads Polars

        return UidShards(self.cache, count, self.identity, self.catalog.identity, self.threads)

    @property
    def shards(self) -> int:
        """In how many shards its uids are compared with new ones, as of some seconds ago."""
        count, until = self._shards
        if time.monotonic() < until:
            return count
        from meterlake.stores.lake.uid_shards import read_shards  # noqa: PLC0415 - loads Polars

        with (
            self._using(),
            translate_errors(),
            open_cursor(self._writer or self._reading()) as cursor,
        ):
            count = read_shards(cursor, self.catalog.schema)
        self._shards = count, time.monotonic() + _SHARDS_KNOWN_S
        return count

    def forget_shards(self) -> None:
        """Read again at the next use how many shards it has."""
        self._shards = (1, 0.0)

    @property
    def staging(self) -> Path:
        """Where files are prepared before a commit; on the file system of those in a folder."""
        return self.folder / "staging"

    @property
    def cache(self) -> Path:
        """What can be built again from the lake."""
        return self.folder / "cache"

    def create(self) -> None:
        """Create the lake and its tables where they do not exist yet; safe to repeat."""
        for folder in (self.staging, self.cache):
            make_folder(folder)
        self.files.create()
        with self.lock():
            self.create_catalog()
            self.catalog.guard()
            self._complete_tables()
        sync(self.folder)

    def create_catalog(self) -> None:
        """Have DuckLake make its own tables where there are none; under the lock."""
        if not self.catalog.exists():
            self._writing()

    def _complete_tables(self) -> None:
        with self.transaction():
            pass  # Every first transaction adds what is missing.

    @contextmanager
    def lock(self, timeout_s: float = -1) -> Iterator[None]:
        """Hold the lake's writer lock; the system frees it when the process dies.

        Args:
            timeout_s: How long to wait for another writer; for ever when negative.

        Raises:
            Busy: Another writer held it all that time.
            Unavailable: It was moved since this process read the settings of its home.
        """
        with self._using(), self.catalog.lock(timeout_s):
            target = self.catalog.moved_to()
            if target is not None:
                hint = "start this process again, or end the move with `meterlake move-lake`"
                raise Unavailable("lake", f"it was moved to {target}", hint)
            self._locked = True
            try:
                yield
            finally:
                self._locked = False

    @contextmanager
    def transaction(self, rows: int | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Run statements as one transaction, under the lock; `lake` is the attached lake.

        Args:
            rows: How many rows it is about; many when None.

        Raises:
            Unavailable: The disk, the memory or the catalog failed.
        """
        with self._using():
            self._renew_writer()
            connection = self._writing()
            few = rows is not None and rows <= _SINGLE_THREADED_MAX
            with translate_errors(), self._working(1 if few else self.threads):
                self.files.renew(connection)
                connection.execute("BEGIN")
                was_complete = self._complete
                try:
                    self.catalog.sign(connection)
                    if not was_complete:
                        for statement in missing(connection):
                            connection.execute(statement)
                        self._complete = True
                    with interrupting(connection):
                        yield connection
                    mark_step("lake.before_commit")
                    connection.execute("COMMIT")
                    self._commits += 1
                except BaseException:
                    self._complete = was_complete
                    self._rolled_back(connection)
                    raise
        mark_step("lake.after_commit")

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Keep the connections from being closed by somebody else."""
        with self._counting:
            self._uses += 1
        try:
            yield
        finally:
            with self._counting:
                self._uses -= 1

    def close_if_unused(self) -> bool:
        """Close the connections if nobody uses them; whether they are closed."""
        with self._counting:
            if self._uses == 0:
                self.close()
            return self._uses == 0

    def _renew_writer(self) -> None:
        """Open the writing connection anew after many commits, unless somebody reads through it.

        It keeps some 60 KB of every file that it registered.
        """
        with self._counting:
            if self._writer is None or self._commits < COMMITS_MAX or self._working_now:
                return
            self._writer.close()
            self._writer, self._commits = None, 0

    @contextmanager
    def _working(self, threads: int) -> Iterator[None]:
        """Work on the writing connection, with so many threads if nobody else does at the moment.

        DuckDB waits for ever if their number changes under a query that runs.
        """
        with self._counting:
            alone = self._working_now == 0
            if alone and self._writer is not None and threads != self._writer_threads:
                self._writer.execute(f"SET threads = {int(threads)}")
                self._writer_threads = threads
            self._working_now += 1
        try:
            yield
        finally:
            with self._counting:
                self._working_now -= 1

    def _rolled_back(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._columns.clear()
        try:
            connection.execute("ROLLBACK")
        except duckdb.Error:
            # The connection is beyond repair; the next use opens a new one.
            connection.close()
            self._writer = None

    @contextmanager
    def reader(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a cursor with the lake attached read-only as `lake`; readers never wait.

        Only the first reader of a lake of an older version waits: until the lake has all tables
        and columns, or, where nobody may write to it, as it is.

        Raises:
            NotFound: The lake does not exist.
        """
        self._check_exists()
        if not self._complete:
            self._check_complete()
        with self._using(), self._working(self.threads):
            # Loading the extensions costs more than most queries: a writer reads where it writes.
            with self._opening:
                connection = self._writer or self._reading()
                cursor = connection.cursor()
            try:
                with translate_errors(), self.catalog.reading(), interrupting(cursor):
                    self.files.renew(connection)
                    yield cursor
            except BaseException as error:
                if is_invalidated(error):
                    self._give_up(connection)
                raise
            finally:
                cursor.close()

    def _give_up(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Have the next use open another connection than this one, which is beyond repair.

        It is not closed: that would end the cursors of others, too, with errors of their own. It
        goes with the last of them.
        """
        with self._opening:
            self._writer = None if self._writer is connection else self._writer
            self._reader = None if self._reader is connection else self._reader

    @contextmanager
    def apart(self, memory: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection with a DuckDB of its own: what takes long is in nobody's way.

        Args:
            memory: What it may use before it spills; as much as the others if None.

        Raises:
            NotFound: The lake does not exist.
            Unavailable: The disk, the memory or the catalog failed.
        """
        with (
            closing(self.connect(memory)) as connection,
            translate_errors(),
            self.catalog.reading(),
            interrupting(connection),
        ):
            self.complete(connection)
            yield connection

    def connect(
        self, memory: str | None = None, threads: int | None = None, *, read_only: bool = True
    ) -> duckdb.DuckDBPyConnection:
        """Open a DuckDB of one's own with the lake attached as `lake`; see `apart`."""
        self._check_exists()
        return self._attach(memory or self.memory, threads or self.threads, read_only=read_only)

    def _check_complete(self) -> None:
        self._complete = True  # Looking at it is reading, too.
        with self.reader() as connection:
            lacking = missing(connection)
        if not lacking:
            return
        self._complete = False
        with suppress(Unavailable, Busy):
            if self._locked:
                self._complete_tables()
            else:
                with self.lock(_UPGRADE_WAIT_S):
                    self._complete_tables()
        self._complete = True

    def complete(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Give a lake of an older version what it lacks, as a connection of one's own sees it.

        Args:
            connection: Has the lake attached as `lake`, outside of a transaction.
        """
        with translate_errors():
            lacking = missing(connection)
        if lacking:
            self._complete = False
            with self.reader():
                pass

    def open_to_write(self) -> None:
        """Open the writing connection now, so that reads before the first write use it too.

        Raises:
            NotFound: The lake does not exist.
        """
        self._check_exists()
        with self._using():
            self._writing()

    def open_to_read(self) -> None:
        """Open the reading connection now: after that several threads may read at once.

        Raises:
            NotFound: The lake does not exist.
        """
        with self.reader():
            pass

    def snapshot(self) -> int:
        """The number of the newest snapshot."""
        self._check_exists()
        with self._using(), translate_errors():
            # Not by `reader`: every statement of its own makes DuckLake look into the catalog.
            return newest_snapshot(self._writer or self._reading())

    def identity(self, snapshot: int) -> str:
        """What tells a snapshot from another one of the same number; see `Catalog.identity`."""
        with self._using(), translate_errors():
            return self.catalog.identity(self._writer or self._reading(), snapshot)

    def history(self, identity: str, delivery: str) -> History:
        """What the ledger knows of a source, as `ledger.history` says it.

        What others committed since the last look may be missing: the commit looks again.
        """
        if self.sources.is_new(identity):
            return UNKNOWN
        with self.reader() as connection:
            snapshot = newest_snapshot(connection)
            return self.sources.history(connection, snapshot, identity, delivery)

    def committed_snapshot(self) -> int:
        """The number of the snapshot that the last transaction made; under the lock."""
        with self._using(), translate_errors():
            found = one(self._writing(), "SELECT * FROM ducklake_last_committed_snapshot('lake')")
        return self.snapshot() if found is None else int(found)

    def tables(self) -> set[str]:
        """The names of the lake's tables."""
        with self.reader() as connection:
            return table_names(connection)

    def close(self) -> None:
        """Close the connections; the lake can be used again afterwards."""
        self.close_connections()
        self.catalog.close()

    def close_connections(self) -> None:
        """Close what DuckDB has open; a lock that is held stays."""
        for connection in (self._writer, self._reader):
            if connection is not None:
                connection.close()
        self._writer = self._reader = None

    def _check_exists(self) -> None:
        if not self.catalog.exists():
            raise NotFound("lake", self.folder.name)

    def _reading(self) -> duckdb.DuckDBPyConnection:
        if self._reader is None:
            self._reader = self._attach(self.memory, self.threads, read_only=True)
        return self._reader

    def _writing(self) -> duckdb.DuckDBPyConnection:
        if self._writer is None:
            self._writer = self._attach(self.memory, self.threads, read_only=False)
            self._writer_threads = self.threads
        return self._writer

    def _attach(self, memory: str, threads: int, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        with translate_errors(self.folder):
            extensions = self._extensions()
            connection = open_duckdb(memory, threads, self.folder / "spill", extensions)
            self.files.prepare(connection)
            for statement in self.catalog.secrets():
                connection.execute(statement)
            address, options = self.catalog.address(), self.catalog.options()
            connection.execute(self._attach_statement(address, options, read_only=read_only))
            if not read_only:
                for statement in self.catalog.retries():
                    connection.execute(statement)
            if not self.files.is_local:
                self._check_root(connection)
            return connection

    def _check_root(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Refuse to look for the files, or to put some, where the catalog has none.

        Of a folder that is nothing: a home that moves has another path.

        Raises:
            Invalid: The machine was told another place than the others were.
        """
        schema = f"__ducklake_metadata_lake.{identifier(self.catalog.schema)}"
        known = one(
            connection, f"SELECT value FROM {schema}.ducklake_metadata WHERE key = 'data_path'"
        )
        if known != self.files.root:
            connection.close()
            rule = f"it must be below {known}, where the catalog says that this lake's files are"
            raise Invalid("METERLAKE_LAKE", self.files.root, rule)

    def _extensions(self) -> tuple[str, ...]:
        return (*self.files.extensions, self.catalog.extension, "ducklake")

    def _attach_statement(self, address: str, options: Iterable[str], *, read_only: bool) -> str:
        """The statement that attaches it as `lake`, wherever its files have been moved to."""
        listed = [f"DATA_PATH {quote(self.files.root)}", "OVERRIDE_DATA_PATH true", *options]
        listed += ["READ_ONLY"] if read_only else [f"DATA_INLINING_ROW_LIMIT {INLINED_ROWS_MAX}"]
        return f"ATTACH {quote(address)} AS lake ({', '.join(listed)})"

    def public_statements(self) -> Iterator[str]:
        """What anybody's DuckDB has to run to attach the lake read-only as `lake`; no secrets.

        Raises:
            Unavailable: The extensions of the installed version of DuckDB are not installed.
        """
        yield from load_statements(self._extensions())
        yield from self.files.public_secrets()
        address, options = self.catalog.public_address(), self.catalog.options(public=True)
        yield self._attach_statement(address, options, read_only=True)

    def ensure_meter_table(self, connection: duckdb.DuckDBPyConnection, meter: MeterFields) -> None:
        """Create a meter's table, or add the columns of its new fields, within a transaction.

        Raises:
            Invalid: Of fields that the meter has no more, the table would have too many, or one
                that differs from another one only in case. Or a field differs so from one that
                the meter had once.
        """
        types = FIXED_COLUMNS | field_types(meter)
        if types.keys() <= self._columns.get(meter.table, set()):
            return
        table = f"lake.{identifier(meter.table)}"
        if meter.former:
            check_former(connection, meter)
        try:
            present = {row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall()}
        except duckdb.CatalogException:  # Cheaper than a list of all tables.
            listed = ", ".join(f"{identifier(name)} {kind}" for name, kind in types.items())
            connection.execute(f"CREATE TABLE {table} ({listed})")
            connection.execute(f"ALTER TABLE {table} SET PARTITIONED BY (year(ts), month(ts))")
            return
        self._columns[meter.table] = present
        check_case(types.keys() - present, present, meter.code)
        for name, kind in types.items():
            if name not in present:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {identifier(name)} {kind}")

    def register(
        self, connection: duckdb.DuckDBPyConnection, table: str, staged: Path, name: str
    ) -> Path:
        """Make a staged Parquet file part of a table within a transaction.

        Args:
            connection: The transaction's connection.
            table: The table.
            staged: The file, in the lake's staging folder; synced if `files` are local.
            name: Its path below the table's folder: `year=2026/month=10/<unique>.parquet`.

        Returns:
            Where its bytes are on this machine now.
        """
        [stored] = self.register_all(connection, [(table, staged, name)])
        return stored

    @contextmanager
    def sending(self) -> Iterator[Callable[[str, Path, str], None] | None]:
        """Have staged files go to a bucket before the body registers them; see `DataFiles.sending`.

        Yields:
            Sends a staged file of a table and a name, as for `register`; None in a folder.
        """
        with self.files.sending() as send:
            yield send and (
                lambda table, staged, name: send(*_stored_names([(table, staged, name)])[0])
            )

    def register_all(
        self, connection: duckdb.DuckDBPyConnection, files: Sequence[tuple[str, Path, str]]
    ) -> list[Path]:
        """Make several staged files part of their tables; see `register`.

        In a bucket one is registered while the next ones are uploaded.
        """
        moved, stored = _stored_names(files), []
        with closing(self.files.store_all(moved)) as found:
            for (table, *_), (_, name), path in zip(files, moved, found, strict=True):
                connection.execute(
                    f"CALL ducklake_add_data_files('lake', {quote(table)},"
                    f" {quote(self.files.root + name)},"
                    " hive_partitioning => true, allow_missing => true)"
                )
                stored.append(path)
        return stored

    def insert(
        self, connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Sequence[Any]]
    ) -> None:
        """Insert a few rows of one of the declared tables, in the order of its columns."""
        marks = ", ".join("?" * len(LAKE_TABLES[table]))
        # By name: in a lake of an older version, newer columns stand behind all others.
        names = ", ".join(map(identifier, LAKE_TABLES[table]))
        connection.executemany(
            f"INSERT INTO lake.{identifier(table)} ({names}) VALUES ({marks})", rows
        )

    def new_staging(self, name: str) -> Path:
        """An empty folder to prepare files in; what an earlier attempt left there is gone."""
        self.drop_staging(name)
        make_folder(self.staging / name)
        return self.staging / name

    def drop_staging(self, name: str) -> None:
        """Remove such a folder and what is left in it."""
        shutil.rmtree(self.staging / name, ignore_errors=True)


def _stored_names(files: Sequence[tuple[str, Path, str]]) -> list[tuple[Path, str]]:
    """Staged files of tables, and their paths below the root of the lake's files."""
    return [(staged, f"{_MAIN}/{table}/{name}") for table, staged, name in files]
