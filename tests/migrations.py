"""Databases of earlier revisions of State: made, filled, and migrated to a later one or back."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import URL, Connection, text

from meterlake.stores.state.core import engine
from meterlake.stores.state.core.engine import Database


@contextmanager
def changing(url: URL) -> Iterator[Connection]:
    """A connection whose changes are kept."""
    database = Database(url)
    try:
        with database.writing() as connection:
            yield connection
    finally:
        database.close()


@contextmanager
def migrating(url: URL) -> Iterator[Connection]:
    """The same, within which migrations can be called."""
    with changing(url) as connection, Operations.context(MigrationContext.configure(connection)):
        yield connection


def migrate(url: URL, direction: Callable[[], None]) -> None:
    """Call a migration, forwards or backwards."""
    with migrating(url):
        direction()


def upgrade(connection: Connection, revision: str) -> None:
    """Make the tables of a revision."""
    config = Config()
    config.set_main_option("script_location", str(Path(engine.__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def insert(connection: Connection, table: str, **values: Any) -> None:
    """Insert a row into a table, whatever its columns are today."""
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)


def rows(url: URL, query: str) -> list[tuple[Any, ...]]:
    """What a query finds."""
    with changing(url) as connection:
        return [tuple(row) for row in connection.execute(text(query))]
