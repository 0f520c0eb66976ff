"""States of all revisions before the baseline: they get its tables and keep their rows."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import URL, Column, Connection, MetaData, Table
from sqlalchemy.exc import ProgrammingError

from meterlake.model.errors import Unavailable
from meterlake.stores.state import State
from meterlake.stores.state.core import migrations
from meterlake.stores.state.core.engine import HEAD
from meterlake.stores.state.core.migrations.earlier import REVISIONS as EARLIER
from meterlake.stores.state.core.migrations.versions import v0041_baseline as baseline
from tests.databases import new_empty_database
from tests.migrations import REVISIONS, changing, lost_rows, rows, rows_of_tables, schema, upgrade

# The first, those of the homes that are stored, one with each table that has changed since, the last.
SOME = ("0001", "0011", "0013", "0034", "0040")
# SQLAlchemy reads no indexes of expressions; `schema` compares them.
pytestmark = pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based")
ORGANIZATIONS = 2
INSTANT = "VARCHAR(27)"
# What columns hold of which not every value does.
VALUES = {
    "body": '{"m3terId":"x","accountId":"a","currency":"USD"}',
    "pins": '{"snapshot":5}',
    "amount": "-0.05",
    "bill_date": "2026-10-01",
    "month": "2026-10",
}
# Dies before a statement, as a process that somebody kills.
DYING = """
import os, signal, sys
from sqlalchemy import Engine, event
from meterlake.stores.state import State
from meterlake.stores.state.core.engine import parse_url

@event.listens_for(Engine, "before_cursor_execute")
def die(connection, cursor, statement, *_):
    if sys.argv[2] in statement:
        os.kill(os.getpid(), signal.SIGKILL)

State.at(parse_url(sys.argv[1]))
"""


@pytest.fixture(scope="module")
def new_schema(tmp_path_factory) -> dict[str, Any]:
    """The schema of a State that is new."""
    url = new_empty_database(tmp_path_factory.mktemp("new"))
    State.at(url).close()
    return schema(url)


def fill(connection: Connection) -> None:
    """Insert a row for each organization into every table."""
    metadata = MetaData()
    metadata.reflect(connection)
    for table in metadata.sorted_tables:
        if table.name != "alembic_version":
            for number in range(ORGANIZATIONS):
                values = {each.name: value_of(table, each, number) for each in table.columns}
                connection.execute(table.insert(), values)


def value_of(table: Table, column: Column[Any], number: int) -> Any:
    """A value that fits what refers to it, and is another one in each row where it identifies it."""
    name, kind = column.name, column.type
    if name == "org":
        value = f"organization-{number}"
    elif name == "kind" and table.name.startswith("entity"):
        value = ("Balance", "ExternalMapping")[number]
    elif name in VALUES:
        value = VALUES[name]
    elif column.foreign_keys or name in ("id", "balance_id"):
        value = f"{identified(table, column)}-{number}"
    elif str(kind) == INSTANT:
        value = f"2026-10-0{number + 1}T00:00:00.000000Z"
    elif kind.python_type is str:
        value = f"{name}-{number}"[-(kind.length or len(name) + 2) :]
    else:
        value = kind.python_type(number)
    return value


def identified(table: Table, column: Column[Any]) -> str:
    """What an id is of; rows for jobs have the ids of these."""
    [name] = [each.column.table.name for each in column.foreign_keys] or [table.name]
    if name in ("integration_run", "statement_job"):
        return "job"
    return "entity" if column.name == "balance_id" else name


def fill_revision(url: URL, revision: str) -> dict[str, list[dict[str, Any]]]:
    """Make a State of a revision with rows in all tables; what they are."""
    with changing(url) as connection:
        upgrade(connection, revision)
        fill(connection)
    return rows_of_tables(url)


def revision_of(url: URL) -> str:
    [[found]] = rows(url, "SELECT version_num FROM alembic_version")
    return found


def test_every_revision_before_the_baseline_is_known():
    assert sorted({*EARLIER, baseline.revision}) == REVISIONS
    assert baseline.down_revision is None


def test_the_baseline_makes_what_the_revisions_before_made(tmp_path_factory):
    by_revisions = new_empty_database(tmp_path_factory.mktemp("revisions"))
    with changing(by_revisions) as connection:
        upgrade(connection, baseline.revision)
    by_baseline = new_empty_database(tmp_path_factory.mktemp("baseline"))
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    with changing(by_baseline) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, baseline.revision)

    assert schema(by_baseline) == schema(by_revisions)


@pytest.mark.parametrize(
    "revision",
    [each if each in SOME else pytest.param(each, marks=pytest.mark.slow) for each in REVISIONS],
)
def test_a_state_of_any_revision_gets_the_tables_of_a_new_one_and_keeps_its_rows(
    empty_database, new_schema, revision
):
    before = fill_revision(empty_database, revision)

    State.at(empty_database).close()

    assert revision_of(empty_database) == HEAD
    assert schema(empty_database) == new_schema
    after = rows_of_tables(empty_database)
    assert lost_rows(before, after) == {}
    assert sum(map(len, after.values())) >= sum(map(len, before.values()))


@pytest.mark.parametrize("revision", [None, "0013"])
def test_a_table_of_another_program_is_left_alone(empty_database, revision):
    with changing(empty_database) as connection:
        if revision:
            upgrade(connection, revision)
        connection.exec_driver_sql("CREATE TABLE lake_file (name TEXT)")
        connection.exec_driver_sql("INSERT INTO lake_file VALUES ('theirs')")
    before = schema(empty_database)

    with pytest.raises((Unavailable, ProgrammingError), match="already exists"):
        State.at(empty_database)

    assert schema(empty_database) == before
    assert rows(empty_database, "SELECT name FROM lake_file") == [("theirs",)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX job_unfinished",
        pytest.param("INSERT INTO posting", marks=pytest.mark.long),
        pytest.param("UPDATE alembic_version", marks=pytest.mark.long),
    ],
)
def test_a_state_whose_upgrade_was_killed_is_as_before_and_is_upgraded_by_the_next(
    empty_database, new_schema, statement
):
    before = fill_revision(empty_database, "0013")
    shown = empty_database.render_as_string(hide_password=False)
    program = [sys.executable, "-c", DYING, shown, statement]

    died = subprocess.run(program, check=False, capture_output=True, text=True)

    assert died.returncode == -signal.SIGKILL, died.stderr
    assert (revision_of(empty_database), rows_of_tables(empty_database)) == ("0013", before)
    State.at(empty_database).close()
    assert schema(empty_database) == new_schema
    assert lost_rows(before, rows_of_tables(empty_database)) == {}
