"""Read-only SQL on the live lake: the verb `query`."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import duckdb

from meterlake.model import wire
from meterlake.model.errors import BadQuery
from meterlake.model.sql import quoted
from meterlake.pipeline.views import create_views
from meterlake.stores import Stores
from meterlake.stores.lake import Lake
from meterlake.stores.lake_connection import translated
from meterlake.stores.reader_gate import reading

_ROWS: Final = 1000
_UNRULY: Final = ("sqlite_", "ducklake_", "postgres_")
# What lists tables, or reads one by a name that is made up while it runs.
_OF_ALL: Final = (
    *("show", "describe", "summarize", "duckdb_", "information_schema", "pg_", "pragma_"),
    *("sqlite_", "query_table", "dictionary"),
)
_EXPLAIN: Final = re.compile(r"\s*explain\b(?:\s+analyze\b)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query, read as they are needed while it is open; column names differ."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]


@contextmanager
def query(stores: Stores, org_id: str, statement: str) -> Iterator[Answer]:
    """Run one reading statement on an organization's lake.

    The connection can do nothing else: the lake is attached read-only, and DuckDB may touch no
    file outside of it. Everything that the published file has is there under the same names.

    Args:
        stores: The home's stores.
        org_id: The organization.
        statement: One SELECT, WITH, VALUES, DESCRIBE, SUMMARIZE or EXPLAIN of these.

    Raises:
        BadQuery: It is no such statement, or DuckDB cannot run it.
        Unavailable: The disk or the memory failed.
    """
    lake = stores.lake(org_id)
    text = statement.casefold()
    everything = any(word in text for word in _OF_ALL)
    with closing(_locked_down(lake)) as connection, reading(lake.gate):
        lake.complete(connection)
        create_views(connection, stores, org_id, lambda name: everything or name in text)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        with _explained(statement):
            _check(connection, statement)
            connection.execute(statement)
            names = [column[0] for column in connection.description or ()]
        yield Answer(_unique(names), _rows(connection, statement))


def _locked_down(lake: Lake) -> duckdb.DuckDBPyConnection:
    """A connection that sees the lake's files and no others, once external access is off."""
    connection = lake.connect()
    catalog = str(lake.catalog)
    files = ", ".join(quoted(catalog + suffix) for suffix in ("", "-wal", "-shm", "-journal"))
    folders = ", ".join(quoted(f"{folder}/") for folder in (lake.data, lake.folder / "spill"))
    connection.execute(f"SET allowed_paths = [{files}]")
    connection.execute(f"SET allowed_directories = [{folders}]")
    return connection


def _check(connection: duckdb.DuckDBPyConnection, statement: str) -> None:
    statements = connection.extract_statements(statement)
    explain = _EXPLAIN.match(statement)
    inner = statement[explain.end() :] if explain and len(statements) == 1 else statement
    if inner is not statement:
        statements = connection.extract_statements(inner)
    if len(statements) != 1:
        raise BadQuery("sql", statement, f"one statement is run, not {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise BadQuery("sql", statement, f"only reading is possible here, not {kind}")
    for function in sorted(_table_functions(connection, inner)):
        # They open files by themselves, past the rules for DuckDB's own files, or run other SQL.
        if function == "query" or function.startswith(_UNRULY):
            raise BadQuery("sql", statement, f"{function} is not available here")


def _table_functions(connection: duckdb.DuckDBPyConnection, statement: str) -> set[str]:
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [statement]).fetchone()
    assert row is not None
    tree = wire.loads(row[0])
    if tree["error"]:
        raise BadQuery("sql", statement, "only SELECT and its like are run here")
    return set(_functions(tree))


def _functions(tree: Any) -> Iterator[str]:
    if isinstance(tree, dict):
        if tree.get("type") == "TABLE_FUNCTION":
            yield tree["function"]["function_name"].lower()
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else ():
        yield from _functions(part)


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
        with _explained(statement):
            rows = connection.fetchmany(_ROWS)
        if not rows:
            return
        yield from (tuple(_aware(value) for value in row) for row in rows)


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
def _explained(statement: str) -> Iterator[None]:
    """Say what is wrong with a statement in the words of DuckDB, and with the world in ours."""
    try:
        with translated():
            yield
    except duckdb.Error as error:
        text = str(error).split("\n\nLINE ", 1)[0]
        raise BadQuery("sql", statement, " ".join(text.split())) from None
