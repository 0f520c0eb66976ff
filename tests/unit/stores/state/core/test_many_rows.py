"""Rows that go to the driver as they are: values are made as SQLAlchemy would make them."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from sqlalchemy import Boolean, Column, Integer, MetaData, String, Table, create_engine, select
from sqlalchemy.dialects.postgresql.psycopg import dialect as postgresql

from meterlake.stores.state.core.many_rows import _compiled, _values, insert_rows, large_cache
from meterlake.stores.state.core.tables import DayText, InstantText

THING = Table(
    "thing",
    MetaData(),
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("interval", Integer),
    Column("day", DayText),
    Column("locked", Boolean),
    Column("at", InstantText),
    Column("note", String),
)
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)
# In another order than the columns of the table.
ROWS = [
    {"at": NOON, "interval": 3, "locked": True, "day": date(2026, 10, 1)},
    {"at": None, "interval": None, "locked": False, "day": None},
]


@pytest.fixture
def connection():
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        THING.create(connection)
        yield connection
    engine.dispose()


def test_rows_are_read_back_as_they_were_given(connection):
    """Whatever the order of their names; the database numbers them, and the rest is NULL."""
    insert_rows(connection, THING, ROWS)

    found = [row._asdict() for row in connection.execute(select(THING).order_by(THING.c.number))]

    assert found == [
        {"number": number, "note": None, **row} for number, row in enumerate(ROWS, start=1)
    ]


def test_no_rows_are_no_statement(connection):
    """There is no name of a column then."""
    insert_rows(connection, THING, [])

    assert connection.execute(select(THING)).all() == []


def test_a_row_that_lacks_a_column_of_the_first_is_refused(connection):
    """It would get the value of another one, or none."""
    with pytest.raises(KeyError):
        insert_rows(connection, THING, [*ROWS, {"at": NOON}])


def test_postgresql_takes_values_by_name():
    """And is asked for no keys, which many rows at once cannot give."""
    elsewhere = NOON.astimezone(timezone(timedelta(hours=2)))
    statement = _compiled(THING, postgresql(), ("at", "locked"))

    [values] = _values(statement, [{"at": elsewhere, "locked": True}])

    assert values == {"at": "2026-10-01T12:00:00.000000Z", "locked": True}
    assert "RETURNING" not in statement.sql
    assert "%(locked)s" in statement.sql


def test_a_large_cache_is_given_back(connection):
    """Also if storing fails; what was written with it stays as it is."""

    def cache_size():
        return connection.exec_driver_sql("PRAGMA cache_size").scalar()

    def insert_with_error():
        with large_cache(connection):
            assert cache_size() == -65_536
            insert_rows(connection, THING, ROWS)
            raise ZeroDivisionError

    usual = cache_size()
    with pytest.raises(ZeroDivisionError):
        insert_with_error()

    assert cache_size() == usual
    assert len(connection.execute(select(THING)).all()) == len(ROWS)
