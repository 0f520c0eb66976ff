"""A DuckDB in memory that reaches nothing: no files, no network, no environment, no Python objects.

It runs on one thread (the same rows give the same value), loads no extensions, and cannot be
configured any further.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import duckdb

from meterlake.model.custom_sql import InvalidSql

# In this order: the last ones forbid the first ones.
_LOCKS: Final = (
    "SET threads = 1",
    "SET temp_directory = ''",
    "SET errors_as_json = true",
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET allow_persistent_secrets = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


class Limits(NamedTuple):
    """What one run of a query may take.

    Attributes:
        memory: Such as `256MB`; nothing is put on disk.
        seconds: How long it may run.
    """

    memory: str = "256MB"
    seconds: float = 10


LIMITS: Final = Limits()


@contextmanager
def locked_connection(memory: str = LIMITS.memory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB in memory that nothing outside can be reached from."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"SET memory_limit = '{memory}'")
        for statement in _LOCKS:
            connection.execute(statement)
        yield connection


def told(error: Exception) -> InvalidSql:
    """What DuckDB says, with the place if it tells one."""
    text = str(error)
    start = text.find("{")
    try:
        found = json.loads(text[start:])
    except ValueError:
        return InvalidSql(text.partition("\n")[0])
    position = found.get("position")
    reason = str(found.get("exception_message", text)).partition("\n")[0]
    return InvalidSql(reason, int(position) if position else None)
