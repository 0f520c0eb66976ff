"""Many rows of a table by the driver's own `executemany`, and a cache that has room for them.

SQLAlchemy's way from a row to the driver takes longer than SQLite's from there to the table. Long
lists of values go in chunks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Connection, Table, insert
from sqlalchemy.engine import Dialect

# SQLite's own cache is 2,000 KiB: pages of larger transactions are written and read several times.
_CACHE_KIB: Final = 2_000
_LARGE_CACHE_KIB: Final = 65_536
# Databases limit the parameters of a statement; SQLite's old limit of 999 is the lowest.
CHUNK: Final = 400
T = TypeVar("T")


@contextmanager
def large_cache(connection: Connection) -> Iterator[None]:
    """Give SQLite memory for the pages of many rows; what was changed stays there until the commit.

    Args:
        connection: Within a transaction.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    connection.exec_driver_sql(f"PRAGMA cache_size = -{_LARGE_CACHE_KIB}")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")


class _Insert(NamedTuple):
    """A statement of a database's driver, and how its values are made.

    Attributes:
        names: The columns in the order of the values.
        processors: What makes of each value what the driver takes; None where it is as it is.
        named: Whether the driver takes values by name.
    """

    sql: str
    names: tuple[str, ...]
    processors: tuple[Callable[[Any], Any] | None, ...]
    named: bool


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, all of which give the same columns values.

    Args:
        connection: Within a transaction.
        table: Where to; columns without values get NULL, or the database's own number.
        rows: By column name.
    """
    if rows:
        statement = _compiled(table, connection.dialect, tuple(rows[0]))
        values: list[Any] = list(_values(statement, rows))
        connection.exec_driver_sql(statement.sql, values)


@lru_cache(maxsize=64)
def _compiled(table: Table, dialect: Dialect, names: tuple[str, ...]) -> _Insert:
    # Inline: no database is asked for the keys that it made.
    compiled: Any = insert(table).inline().compile(dialect=dialect, column_keys=list(names))
    order = tuple(compiled.positiontup or names)
    types = (table.c[name].type.dialect_impl(dialect) for name in order)
    processors = tuple(each.bind_processor(dialect) for each in types)
    return _Insert(str(compiled), order, processors, named=not compiled.positional)


def _values(statement: _Insert, rows: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    columns = [
        [row[name] for row in rows] if process is None else [process(row[name]) for row in rows]
        for name, process in zip(statement.names, statement.processors, strict=True)
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(statement.names, values, strict=True)) if statement.named else values


def chunks_of(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Some items after the other, in their order.

    >>> list(chunks_of("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
