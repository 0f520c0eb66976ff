"""Fixtures: State on both of its databases, SQLite and PostgreSQL."""

import shutil
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url

from meterlake.stores.state import State
from meterlake.stores.state.core.engine import parse_url, sqlite_url
from tests.organizations import Clock, migrated_file, new_organization
from tests.postgres import missing, postgres

NUMBERS = count()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server with a migrated database to copy."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with postgres() as url:
        administrate(url, "CREATE DATABASE template_state")
        State.at(parse_url(str(make_url(url).set(database="template_state")))).close()
        yield url


def administrate(url: str, statement: str) -> None:
    engine = create_engine(parse_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()


def new_database(postgresql: str) -> str:
    """The URL of a database of a server that is migrated and has no rows."""
    name = f"state_{next(NUMBERS)}"
    administrate(postgresql, f"CREATE DATABASE {name} TEMPLATE template_state")
    return make_url(postgresql).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """The URL of a database that is migrated and has no rows."""
    if request.param == "sqlite":
        return sqlite_url(Path(shutil.copy(migrated_file(), tmp_path)))
    return parse_url(new_database(request.getfixturevalue("postgresql")))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def state(database, clock) -> Iterator[State]:
    with State.at(database, clock) as opened:
        yield opened


@pytest.fixture
def org(state) -> str:
    return new_organization(state)
