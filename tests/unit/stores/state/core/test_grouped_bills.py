"""A home of revision 0016, whose bills of one date and period could not be told apart."""

from contextlib import contextmanager
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from meterlake.stores.state.core import engine
from meterlake.stores.state.core.engine import Database, parse_url, sqlite_url
from meterlake.stores.state.core.migrations.versions import v0017_grouped_bills
from tests.databases import NUMBERS, administrate

BEFORE = "0016"
MADE = "2026-10-01T00:00:00.000000Z"
AUDIT = {"created": MADE, "created_by": "bob", "modified": MADE, "modified_by": "ann"}
BILL = {
    "org": "o",
    "account_id": "a",
    "bill_date": "2026-11-01",
    "frequency": "MONTHLY",
    "interval": 1,
    "period": "2026-10",
    "version": 1,
    "status": "PENDING",
    "locked": False,
    "currency": "USD",
    "total": "1",
    "body": "{}",
    "pins": "{}",
    **AUDIT,
}
LINE = {"sequence": 1, "key": "USAGE/a", "body": "{}", "pins": "{}"}


@contextmanager
def changing(url):
    database = Database(url)
    try:
        with database.writing() as connection:
            yield connection
    finally:
        database.close()


def insert(connection, table, **values):
    names, places = ", ".join(values), ", ".join(f":{name}" for name in values)
    connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), values)


@pytest.fixture(params=["sqlite", "postgresql"])
def stored(request, tmp_path):
    """The URL of a database of the revision before, with a bill and its line."""
    url = sqlite_url(tmp_path / "state.sqlite")
    if request.param == "postgresql":
        server = request.getfixturevalue("postgresql")
        name = f"grouped_{next(NUMBERS)}"
        administrate(server, f"CREATE DATABASE {name}")
        url = parse_url(server).set(database=name)
    with changing(url) as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(engine.__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, BEFORE)
        insert(connection, "organization", id="o", code="o", name="O", created=MADE)
        insert(connection, "bill", id="first", **BILL)
        insert(connection, "bill_line", bill_id="first", **LINE)
    return url


def migrate(url, direction):
    with (
        changing(url) as connection,
        Operations.context(MigrationContext.configure(connection)),
    ):
        direction()


def lines(url):
    query = (
        "SELECT b.id, l.key FROM bill b JOIN bill_line l ON l.bill_id = b.id ORDER BY b.id, l.key"
    )
    with changing(url) as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def add_grouped(url, grouping_key):
    with changing(url) as connection:
        insert(connection, "bill", id="second", **BILL, grouping_key=grouping_key)
        insert(connection, "bill_line", bill_id="second", **LINE)


def test_before_there_is_one_bill_of_a_date_and_period(stored):
    with pytest.raises(IntegrityError), changing(stored) as connection:
        insert(connection, "bill", id="second", **BILL)


def test_bills_keep_their_lines_and_get_an_empty_key(stored):
    migrate(stored, v0017_grouped_bills.upgrade)

    assert lines(stored) == [("first", "USAGE/a")]
    with pytest.raises(IntegrityError):
        add_grouped(stored, "")
    add_grouped(stored, "contract")
    assert lines(stored) == [("first", "USAGE/a"), ("second", "USAGE/a")]


def test_the_way_back_takes_the_bills_that_only_the_key_tells_apart(stored):
    migrate(stored, v0017_grouped_bills.upgrade)
    add_grouped(stored, "contract")

    migrate(stored, v0017_grouped_bills.downgrade)

    assert lines(stored) == [("first", "USAGE/a")]
    with pytest.raises(IntegrityError), changing(stored) as connection:
        insert(connection, "bill", id="second", **BILL)
