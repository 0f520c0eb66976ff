"""Read-only SQL on the live lake: the verb `query`."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any, Final

import duckdb

from meterlake.model.errors import BadQuery
from meterlake.model.values import wire
from meterlake.model.values.sql import identifier, quote
from meterlake.pipeline.publish.views import ACCOUNT, COMMENT, create_views
from meterlake.stores import Organization
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.lake import Lake

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS: Final = 1000
_BATCH: Final = 65_536
# Parquet has no integers of 128 bits; Arrow would make floating point of them.
_CASTS: Final = {
    "HUGEINT": "CAST({} AS DECIMAL(38,0))",
    "UHUGEINT": "CAST({} AS DECIMAL(38,0))",
}
_UNRULY: Final = ("sqlite_", "ducklake_", "postgres_")
_HIDDEN: Final = {"query", "duckdb_secrets", "which_secret"}
# How the database that DuckLake attaches beside a lake is called; others may have tables there.
_CATALOG: Final = "__ducklake_metadata"
# What lists tables with their comments, or reads one by a name that is made up while it runs.
_WITH_COMMENTS: Final = (
    *("duckdb_", "information_schema", "pg_", "pragma_", "sqlite_"),
    *("query_table", "dictionary"),
)
_OF_ALL: Final = ("show", "describe", "summarize", *_WITH_COMMENTS)
# Where DuckDB's tree of a statement has the names of tables and of functions that are read.
_TABLE: Final = ("table_name",)
_FUNCTION: Final = ("function", "function_name")
_READ: Final = (("BASE_TABLE", _TABLE), ("TABLE_FUNCTION", _FUNCTION))
_EXPLAIN: Final = re.compile(r"\s*explain\b(?:\s+analyze\b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query, read as they are needed while it is open; column names differ.

    Attributes:
        tables: The tables, views and macros that the query reads by name.
    """

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]
    tables: frozenset[str]


@contextmanager
def query(organization: Organization, statement: str) -> Iterator[QueryResult]:
    """Run one reading statement on an organization's lake.

    The connection can do nothing else: the lake is attached read-only, and DuckDB may touch no
    file outside of it. Everything that the published file has is there under the same names.

    Args:
        organization: The organization.
        statement: One SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE or EXPLAIN of these.

    Raises:
        BadQuery: It is no such statement, or DuckDB cannot run it.
        Unavailable: The disk or the memory failed.
    """
    with _open_for(organization, statement) as connection:
        tree = _tree(connection, statement)
        tables = frozenset(each for kind in _READ for each in _names(tree, *kind))
        with _explain_errors(statement):
            connection.execute(statement)
            names = [column[0] for column in connection.description or ()]
        yield QueryResult(_unique(names), _rows(connection, statement), tables)


@contextmanager
def query_batches(
    organization: Organization, statement: str
) -> Iterator[tuple["pa.Schema", Iterator["pa.RecordBatch"]]]:
    """Run one reading statement as `query` does, with its columns as Arrow has them.

    Instants are naive UTC as in the lake. What DuckDB adds up to 128 bits is DECIMAL(38,0).

    Raises:
        BadQuery: It is no such statement or explains one, or DuckDB cannot run it.
        Unavailable: The disk or the memory failed.
    """
    if _EXPLAIN.match(statement):
        raise BadQuery(
            "sql",
            statement,
            "EXPLAIN gives a text, and no columns for a Parquet file; leave the file out",
        )
    with _open_for(organization, statement) as connection:
        # What whoever writes the rows meets is no error of the query.
        with _explain_errors(statement):
            [parsed] = connection.extract_statements(statement)
            inner = parsed.query.strip().rstrip(";")
            columns = connection.execute(f"DESCRIBE {inner}").fetchall()
            names = _unique([column[0] for column in columns])
            places = [f"c{number}" for number in range(len(names))]
            casts = ", ".join(
                f"{_CASTS.get(column[1], '{}').format(place)} AS {identifier(name)}"
                for place, name, column in zip(places, names, columns, strict=True)
            )
            cast = f"SELECT {casts} FROM (\n{inner}\n) AS t({', '.join(places)})"
            reader = connection.execute(cast).to_arrow_reader(_BATCH)
        yield reader.schema, _batches(reader, statement)


def _batches(reader: "pa.RecordBatchReader", statement: str) -> Iterator["pa.RecordBatch"]:
    while True:
        try:
            with _explain_errors(statement):
                batch = reader.read_next_batch()
        except StopIteration:
            return
        yield batch


@contextmanager
def _open_for(organization: Organization, statement: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection for one statement that was checked."""
    lake = organization.lake
    with closing(_locked_down(lake)) as connection, lake.catalog.reading():
        lake.complete(connection)
        # Whether a statement may read any table or view, or call a macro that does.
        if any(word in statement.casefold() for word in _OF_ALL):
            reads_tables = True
        else:
            tree = _tree(connection, _EXPLAIN.sub("", statement, count=1))
            reads_tables = bool(tree["error"]) or any(any(_names(tree, *each)) for each in _READ)
        if reads_tables:
            allowed = _allowed_tables(connection, statement)
            # In one transaction DuckLake looks into the catalog once, not for each statement.
            connection.begin()
            create_views(connection, organization, allowed)
            connection.commit()
        connection.execute("SET enable_external_access = false")
        connection.execute(f"SET threads = {lake.threads:d}")
        connection.execute("SET lock_configuration = true")
        with _explain_errors(statement):
            _check(connection, statement, is_shared=not lake.catalog.is_local)
        yield connection


def _allowed_tables(connection: duckdb.DuckDBPyConnection, statement: str) -> Callable[[str], bool]:
    """Which tables a statement may read, by their names.

    Where a home has many accounts, their table costs more than all others; most statements only
    name it in a column.
    """
    text = statement.casefold()
    everything = reads_accounts = any(word in text for word in _OF_ALL)
    if not everything:
        tree = _tree(connection, _EXPLAIN.sub("", statement, count=1))
        # What is no reading statement reads the accounts.
        reads_accounts = tree["error"] or ACCOUNT in _names(tree, "BASE_TABLE", _TABLE)
    allowed = {
        ACCOUNT: reads_accounts,
        COMMENT: any(word in text for word in (*_WITH_COMMENTS, COMMENT)),
    }
    return lambda name: allowed.get(name, everything or name in text)


def _tree(connection: duckdb.DuckDBPyConnection, statement: str) -> Any:
    """A statement as DuckDB parses it; `error` if it is none that can be read so."""
    # As a literal: for a bound parameter, DuckDB imports pandas where it is installed.
    row = connection.execute(f"SELECT json_serialize_sql({quote(statement)}::VARCHAR)").fetchone()
    assert row is not None
    return wire.loads(row[0])


def _locked_down(lake: Lake) -> duckdb.DuckDBPyConnection:
    """A connection that sees the lake's files and no others, once external access is off."""
    # Until the statement runs there is little to do, and threads would wait for each other.
    connection = lake.connect(threads=1)
    files = ", ".join(map(quote, lake.catalog.paths))
    folders = ", ".join(map(quote, (lake.files.root, f"{lake.folder / 'spill'}/")))
    connection.execute(f"SET allowed_paths = [{files}]")
    connection.execute(f"SET allowed_directories = [{folders}]")
    return connection


def _check(connection: duckdb.DuckDBPyConnection, statement: str, *, is_shared: bool) -> None:
    """Refuse what is no reading statement, or reads more than the lake.

    Args:
        connection: Where it is to run.
        statement: The statement.
        is_shared: Whether the catalog's database has more than this lake.
    """
    statements = connection.extract_statements(statement)
    explain = _EXPLAIN.match(statement)
    inner = statement[explain.end() :] if explain and len(statements) == 1 else statement
    if inner is not statement:
        statements = connection.extract_statements(inner)
    if len(statements) != 1:
        raise BadQuery(
            "sql",
            statement,
            f"one statement is run, not {len(statements)}; give one after the other",
        )
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise BadQuery(
            "sql", statement, f"only reading is possible here, not {kind}; write a SELECT"
        )
    if is_shared and _CATALOG in statement.casefold():
        raise BadQuery(
            "sql", statement, f"{_CATALOG}… is not available here; name tables of the lake"
        )
    tree = _tree(connection, inner)
    if tree["error"]:
        raise BadQuery("sql", inner, "only SELECT and its like are run here; write one")
    functions = set(_names(tree, "TABLE_FUNCTION", _FUNCTION))
    for function in sorted(functions):
        # They open files by themselves, past the rules for DuckDB's own files, or run other SQL.
        made_up = function == "query_table" and is_shared
        if made_up or function in _HIDDEN or function.startswith(_UNRULY):
            raise BadQuery("sql", statement, f"{function} is not available here; leave it out")


def _names(tree: Any, kind: str, place: Sequence[str]) -> Iterator[str]:
    """The names at a place of all nodes of a kind."""
    if isinstance(tree, dict):
        if tree.get("type") == kind:
            yield str(reduce(getitem, place, tree)).casefold()
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else ():
        yield from _names(part, kind, place)


def _unique(names: list[str]) -> tuple[str, ...]:
    """The names of columns, numbered where they come again: `count`, `count_2`."""
    found: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in found:
            number += 1
            unique = f"{name}_{number}"
        found[unique] = None
    return tuple(found)


def _rows(connection: duckdb.DuckDBPyConnection, statement: str) -> Iterator[tuple[Any, ...]]:
    while True:
        with _explain_errors(statement):
            rows = connection.fetchmany(_ROWS)
        if not rows:
            return
        yield from (tuple(_aware(value) for value in row) for row in rows)


def text_of(value: Any) -> str:
    """A value of an answer as a cell of CSV: numbers with their digits, lists as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case _:
            return wire.dumps(value).decode().strip('"')


def _aware(value: Any) -> Any:
    """Instants without a zone are UTC everywhere in the lake; here they say so."""
    match value:
        case datetime(tzinfo=None):
            return value.replace(tzinfo=UTC)
        case list() | tuple():
            return [_aware(item) for item in value]
        case dict():
            return {str(key): _aware(item) for key, item in value.items()}
        case _:
            return value


@contextmanager
def _explain_errors(statement: str) -> Iterator[None]:
    """Say what is wrong with a statement in the words of DuckDB, and with the world in ours."""
    try:
        with translate_errors():
            yield
    except duckdb.Error as error:
        text = str(error).split("\n\nLINE ", 1)[0]
        raise BadQuery("sql", statement, " ".join(text.split())) from None
