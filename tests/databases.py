"""Fixtures: State on both of its databases, SQLite and PostgreSQL."""

import shutil
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import create_engine, make_url

from meterlake.settings import Settings
from meterlake.stores import home_settings
from meterlake.stores.state import State
from meterlake.stores.state.core.engine import parse_url, sqlite_url
from tests.organizations import Clock, migrated_file, new_organization
from tests.postgres import missing, postgres

NUMBERS = count()
# The version of PostgreSQL since which one may choose how a database is copied.
_CHOICE_SINCE: Final = 150000

# The server on which homes of tests have their State, instead of in a file of SQLite.
_SERVERS: list[str] = []
# Where the State of a home is, by its folder.
_STATES: dict[Path, str] = {}


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


@cache
def _strategy(postgresql: str) -> str:
    """Copy files, as all versions before 15 do: it takes half of what a copy by the log takes."""
    engine = create_engine(parse_url(postgresql))
    with engine.connect() as connection:
        version = connection.exec_driver_sql("SHOW server_version_num").scalar_one()
    engine.dispose()
    return "STRATEGY FILE_COPY" if int(version) >= _CHOICE_SINCE else ""


def new_database(postgresql: str, template: str | None = "template_state") -> str:
    """The URL of a database of a server that is migrated and has no rows, or what a template has."""
    name = f"state_{next(NUMBERS)}"
    administrate(postgresql, f"CREATE DATABASE {name} TEMPLATE {template} {_strategy(postgresql)}")
    return make_url(postgresql).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]
)
def home_database(request) -> Iterator[str]:
    """Where the homes of a module have their State: each test runs on both databases.

    Fixtures that make a home ask for it.
    """
    if request.param == "postgresql":
        _SERVERS.append(request.getfixturevalue("postgresql"))
    yield request.param
    _SERVERS.clear()


def current_database() -> str:
    """Where new homes have their State."""
    return "postgresql" if _SERVERS else "sqlite"


def state_of(home: Path) -> dict[str, str]:
    """The setting that says where the State of a home is; none if it is in the home."""
    if not _SERVERS:
        return {}
    if home not in _STATES:
        _STATES[home] = new_database(_SERVERS[0])
    return {"state": _STATES[home]}


def copy_home(template: Path, home: Path) -> Path:
    """Copy a home that nobody has open, with its State."""
    shutil.copytree(template, home)
    if _SERVERS:
        _STATES[home] = new_database(_SERVERS[0], make_url(_STATES[template]).database)
        home_settings.change(Settings(home=home, _env_file=None), "state", _STATES[home])
    return home


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database(request, tmp_path):
    """The URL of a database without tables."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "state.sqlite")
    server = request.getfixturevalue("postgresql")
    name = f"empty_{next(NUMBERS)}"
    administrate(server, f"CREATE DATABASE {name}")
    return parse_url(server).set(database=name)


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
