"""DuckDB connections with the extensions that lakes need, and their tables; no network, no HOME.

The extensions are loaded by their path inside the installed packages.
"""

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import duckdb

from meterlake.model.errors import MeterlakeError, Unavailable
from meterlake.model.values.sql import identifier, quote
from meterlake.stores.files.durable import MAKE_ROOM, disk, out_of_space
from meterlake.stores.interruption import interruption_of

# What a lake in a folder needs.
EXTENSIONS: Final = ("sqlite_scanner", "ducklake")
# Rows of one insert up to this number live in the catalog itself, which is synced to disk.
INLINED_ROWS_MAX: Final = 1000


def parquet(paths: Sequence[Path], *, by_name: bool = False) -> str:
    """Files as one source of SQL; `by_name` if not all of them have the same columns."""
    listed = ", ".join(map(quote, paths))
    alike = ", union_by_name => true" if by_name else ""
    return f"read_parquet([{listed}], hive_partitioning => false{alike})"


def extension_path(name: str) -> Path:
    """Where the installed package keeps a DuckDB extension.

    Raises:
        Unavailable: The package is not installed or does not fit DuckDB's version.
    """
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    places = (spec.submodule_search_locations if spec else None) or []
    for place in places:
        found = Path(place, "extensions", f"v{duckdb.__version__}", f"{name}.duckdb_extension")
        if found.exists():
            return found
    raise Unavailable(
        f"DuckDB extension {name}",
        f"no package for version {duckdb.__version__}",
        "install meterlake again with all that it needs",
    )


def open_duckdb(
    memory: str, threads: int, spill: Path, extensions: Sequence[str] = EXTENSIONS
) -> duckdb.DuckDBPyConnection:
    """Open an in-memory DuckDB with the lake's extensions, UTC, bounded memory.

    It reaches no network but the one that an extension is for.

    Args:
        memory: What it may use before it spills, such as `700MB`.
        threads: How many threads queries use.
        spill: The folder that it spills to.
        extensions: The extensions that it needs.
    """
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # They come with the Python packages, which nobody signs either; checking the
            # signatures of both takes 0.15 s, more than most queries.
            "allow_unsigned_extensions": True,
            "memory_limit": memory,
            "threads": threads,
            "temp_directory": str(spill),
            "preserve_insertion_order": False,
        }
    )
    connection.execute("SET TimeZone = 'UTC'")
    # DuckDB takes a process that runs a module (`python -m`) for a person at a terminal.
    connection.execute("SET enable_progress_bar = false")
    for statement in load_statements(extensions):
        connection.execute(statement)
    return connection


def load_statements(extensions: Sequence[str] = EXTENSIONS) -> Iterator[str]:
    """The statements that load the extensions that lakes need, from the installed packages.

    Raises:
        Unavailable: A package is not installed or does not fit DuckDB's version.
    """
    yield from (f"LOAD {quote(extension_path(name))}" for name in extensions)


@contextmanager
def interrupting(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Have DuckDB's threads stop with the body, if that fails.

    A signal breaks off a query in the thread that asked. Others go on with their part, and what
    uses the connection next, if only to close it, waits for them.
    """
    try:
        yield
    except BaseException:
        with suppress(duckdb.Error):  # It is closed.
            connection.interrupt()
        raise


@contextmanager
def open_cursor(connection: duckdb.DuckDBPyConnection) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection to the same DuckDB; what it does stops with the body."""
    with connection.cursor() as cursor, interrupting(cursor):
        yield cursor


_WORLD: Final = (
    *(duckdb.IOException, duckdb.OutOfMemoryException, duckdb.TransactionException),
    # An assertion of DuckDB or DuckLake failed, as may happen beside other connections: whoever
    # tries again asks the ledger first, with an instance that is opened anew.
    *(duckdb.InternalException, duckdb.FatalException),
)
_GIVEN_UP: Final = (duckdb.InternalException, duckdb.FatalException)
# What the catalog's SQLite says comes through DuckDB as errors of any kind.
_CATALOG: Final = re.compile(
    "disk I/O error|database or disk is full|readonly database|unable to open database"
    "|database is locked|database disk image is malformed"
    # PostgreSQL's.
    "|server closed the connection|connection to server|could not connect|terminating connection"
    "|the database system is|no connection to the server|this writer of \\S+ has been replaced"
    "|could not serialize access|has been invalidated|Connection pool timeout"
    # What read the catalog failed before, in the same transaction.
    "|Current transaction is aborted"
)
# Says only that there is an error, which stands below.
_EMPTY_LINE: Final = (
    "Invalid Input Error: Attempting to fetch from an unsuccessful query result\nError: "
)
_REFUSED: Final = re.compile(r"this writer of \S+ has been replaced|could not serialize access.*")


@contextmanager
def translate_errors(folder: Path | None = None) -> Iterator[None]:
    """Turn DuckDB's errors about disk, memory and locks into ours.

    Args:
        folder: Where the catalog lies: a full disk is named.

    Raises:
        Unavailable: The world failed.
    """
    try:
        with disk():
            yield
    except MeterlakeError:
        raise
    except (duckdb.Error, RuntimeError) as error:
        if interruption := interruption_of(error):
            raise interruption from None
        is_catalog = isinstance(error, duckdb.Error) and _CATALOG.search(str(error))
        if isinstance(error, _WORLD) or is_catalog:
            reason = out_of_space(folder) if folder is not None else None
            if reason:
                raise Unavailable("lake", reason, MAKE_ROOM) from error
            raise Unavailable("lake", _first_line(error)) from error
        raise


def is_invalidated(error: BaseException | None) -> bool:
    """Whether DuckDB gave a whole instance up: it has to be opened anew."""
    while error is not None:
        if isinstance(error, _GIVEN_UP) or "has been invalidated" in str(error):
            return True
        error = error.__cause__
    return False


def _first_line(error: BaseException) -> str:
    # Of a commit that PostgreSQL refused, the reason stands below the statement.
    reason = _REFUSED.search(str(error))
    return reason[0] if reason else str(error).removeprefix(_EMPTY_LINE).partition("\n")[0]


@contextmanager
def temporary_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: Sequence[Sequence[Any]],
) -> Iterator[None]:
    """Create a table while the body runs; for thousands of rows, not for millions.

    Commands that only look at the lake need neither Polars nor Arrow for it, whose imports take
    longer than most queries.

    Args:
        connection: Where it is created; others do not see it.
        name: The name of the table.
        columns: The SQL type of every column.
        rows: The values, in the order of the columns.
    """
    lists = ", ".join(
        f"unnest($c{number}::{kind}[]) AS {identifier(column)}"
        for number, (column, kind) in enumerate(columns.items())
    )
    values = {f"c{number}": [row[number] for row in rows] for number in range(len(columns))}
    connection.execute(f"CREATE TEMP TABLE {identifier(name)} AS SELECT {lists}", values)
    try:
        yield
    finally:
        connection.execute(f"DROP TABLE temp.{identifier(name)}")
