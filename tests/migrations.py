"""Databases of earlier revisions of State: made, filled, and looked at."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, inspect, text

from meterlake.stores.state.core.engine import Database

# What the revisions 0001 to 0041 ran on an empty database, until they became one baseline: without
# what moves rows.
STATEMENTS = Path(__file__).parent / "data" / "state"
REVISIONS = [f"{number:04}" for number in range(1, 42)]
_HEADING = re.compile(r"^-- revision (\d{4})\n", re.MULTILINE)


@contextmanager
def changing(url: URL) -> Iterator[Connection]:
    """A connection whose changes are kept."""
    database = Database(url)
    try:
        with database.writing() as connection:
            yield connection
    finally:
        database.close()


def upgrade(connection: Connection, revision: str) -> None:
    """Make the tables of a revision in an empty database."""
    _, *parts = _HEADING.split((STATEMENTS / f"{connection.dialect.name}.sql").read_text("utf-8"))
    for number, statements in zip(parts[::2], parts[1::2], strict=True):
        if number <= revision:
            for statement in filter(None, map(str.strip, statements.split("\n\n"))):
                connection.exec_driver_sql(statement)
    connection.exec_driver_sql(
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL,"
        " CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num))"
    )
    insert(connection, "alembic_version", version_num=revision)


def insert(connection: Connection, table: str, **values: Any) -> None:
    """Insert a row into a table, whatever its columns are today."""
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)


def rows(url: URL, query: str) -> list[tuple[Any, ...]]:
    """What a query finds."""
    with changing(url) as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def rows_of_tables(url: URL) -> dict[str, list[dict[str, Any]]]:
    """All rows of all tables but the revision."""
    with changing(url) as connection:
        names = sorted({*inspect(connection).get_table_names()} - {"alembic_version"})
        return {
            name: [
                dict(row) for row in connection.execute(text(f"SELECT * FROM {name}")).mappings()
            ]
            for name in names
        }


def lost_rows(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The rows of before that a database has no longer, or otherwise, by table.

    A table that is gone, and a column that is gone or new, is not looked at.
    """
    lost = {}
    for name in before.keys() & after.keys():
        if before[name] and after[name]:
            names = sorted(before[name][0].keys() & after[name][0].keys())
            left = [[row[each] for each in names] for row in after[name]]
            gone = [row for row in before[name] if [row[each] for each in names] not in left]
        else:
            gone = before[name]
        if gone:
            lost[name] = gone
    return lost


def schema(url: URL) -> dict[str, Any]:
    """What a database has but rows: columns in their order, constraints, indexes, functions."""
    with changing(url) as connection:
        inspector = inspect(connection)
        found: dict[str, Any] = {
            name: {
                "columns": [_texts(each) for each in inspector.get_columns(name)],
                "primary key": inspector.get_pk_constraint(name)["constrained_columns"],
                "references": sorted(map(_texts, inspector.get_foreign_keys(name))),
                "unique": sorted(map(_texts, inspector.get_unique_constraints(name))),
                "checks": sorted(map(_texts, inspector.get_check_constraints(name))),
            }
            for name in inspector.get_table_names()
        }
        for number, query in enumerate(_OBJECTS[connection.dialect.name]):
            found |= {f"{number} {name}": sql for name, sql in connection.exec_driver_sql(query)}
        return found


def _texts(facts: Any) -> str:
    return str({name: str(value) for name, value in sorted(facts.items())})


_OBJECTS = {
    "sqlite": (
        "SELECT name, sql FROM sqlite_master WHERE type <> 'table' AND sql IS NOT NULL",
        "SELECT name, 'autoincrement' FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%'",
    ),
    "postgresql": (
        "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        """SELECT conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace""",
        """SELECT proname, pg_get_functiondef(oid)
        FROM pg_proc WHERE pronamespace = 'public'::regnamespace""",
        "SELECT sequencename, data_type::text FROM pg_sequences WHERE schemaname = 'public'",
    ),
}
