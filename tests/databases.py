"""Fixtures: State and lakes where they can be: in the home, or in PostgreSQL, S3 and GCS."""

import shutil
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import boto3
import pytest
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.util import LRUCache

from meterlake.settings import Settings
from meterlake.stores import home_settings
from meterlake.stores.objects import ObjectStore, open_objects
from meterlake.stores.state import State
from meterlake.stores.state.core.engine import parse_url, sqlite_url
from tests.doubles.gcs import gcs_server
from tests.doubles.s3 import moto_server
from tests.organizations import Clock, migrated_file, new_organization
from tests.postgres import missing, postgres

NUMBERS = count()


class _Statements:
    """The compiled statements of all files of SQLite.

    An engine keeps its own, and those of another one are nothing to it. A process has one engine.
    That of the tests opens a home for each of them, and would compile every statement each time.
    """

    def __init__(self) -> None:
        self._compiled: LRUCache[Any, Any] = LRUCache(5000)

    def get(self, key: tuple[Any, ...]) -> Any:
        """What an engine of the same dialect compiled."""
        return self._compiled.get((type(key[0]), *key[1:]))

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        """Keep what an engine compiled."""
        self._compiled[type(key[0]), *key[1:]] = compiled


_STATEMENTS: Final = _Statements()


@event.listens_for(Engine, "engine_connect")
def _share_statements(connection: Connection) -> None:
    if connection.dialect.driver == "pysqlite":
        connection.execution_options(compiled_cache=_STATEMENTS)


# The version of PostgreSQL since which one may choose how a database is copied.
_CHOICE_SINCE: Final = 150000


class LakeStore(NamedTuple):
    """A server with a bucket; `setting` is what tells its endpoint."""

    scheme: str
    setting: str
    url: str

    def objects(self, prefix: str) -> ObjectStore:
        """What lies below a URL."""
        return open_objects(prefix, Settings(_env_file=None, **{self.setting: self.url}))


# The server on which homes of tests have their State, instead of in a file of SQLite.
_SERVERS: list[str] = []
# Where the State of a home is, by its folder.
_STATES: dict[Path, str] = {}
# The stores in whose buckets homes of tests have the files of their lakes, instead of in a folder.
_STORES: list[LakeStore] = []
_SHARDS: list[int] = [1]
_BUCKETS: Final = ("s3", "gcs")
# Fixtures that say where a test has its lakes, or nothing but State.
_LAKES: Final = {"lake_location"}
_STATE: Final = {"database", "empty_database"}
# Where the files of a home's lakes are, by its folder.
_PREFIXES: dict[Path, str] = {}


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    """A server of S3: of lakes and of whatever else tests have in buckets, as settings name one."""
    with moto_server() as url:
        yield url


@pytest.fixture(scope="session")
def strict_gcs() -> Iterator[str]:
    """A server of GCS, for the same."""
    with gcs_server("test-bucket", "lakes") as url:
        yield url


@pytest.fixture(scope="session")
def s3_lakes(moto: str) -> LakeStore:
    """A server of S3 with a bucket for lakes."""
    boto3.client("s3", endpoint_url=moto).create_bucket(Bucket="lakes")
    return LakeStore("s3", "s3_endpoint", moto)


@pytest.fixture(scope="session")
def gcs_lakes(strict_gcs: str) -> LakeStore:
    """A server of GCS with a bucket for lakes."""
    return LakeStore("gs", "gcs_endpoint", strict_gcs)


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


@pytest.fixture(scope="module")
def home_database() -> str:
    """The database in which the homes of a module have their State, as `--lakes` says.

    Fixtures that make a home ask for it: `.ci/matrix` runs their tests on the other stores.
    """
    return "postgresql" if _SERVERS else "sqlite"


@pytest.fixture(scope="module")
def lake_location(request) -> Iterator[str]:
    """Where the homes of a module have State and lakes, as `--lakes` says.

    In the home; or in PostgreSQL, with the files of lakes in a bucket. Fixtures that make a home
    ask for it: `.ci/matrix` runs their tests on the other stores. A test that is about buckets
    names some by its parameter.
    """
    before = _SERVERS[:], _STORES[:]
    chosen = getattr(request, "param", request.config.getoption("--lakes"))
    if hasattr(request, "param"):
        _SERVERS[:], _STORES[:] = _servers_of(request, chosen)
    yield chosen if _STORES else "folder"
    _SERVERS[:], _STORES[:] = before


def _servers_of(request: pytest.FixtureRequest, stores: str) -> tuple[list[str], list[LakeStore]]:
    """The servers where State and lakes are, by the name of the stores."""
    servers = [] if stores == "folder" else [request.getfixturevalue("postgresql")]
    return servers, [request.getfixturevalue(f"{stores}_lakes")] if stores in _BUCKETS else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what runs on other stores, too: tests that ask where State or lakes are."""
    matrix = (
        _LAKES if config.getoption("--lakes") in _BUCKETS else _LAKES | _STATE | {"home_database"}
    )
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if "lake_location" in getattr(getattr(item, "callspec", None), "params", ()):
            continue  # It says itself which stores it is about.
        if matrix & names:
            item.add_marker("matrix")
        if _STATE & names:
            item.add_marker("on_both")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Any test whose home `tests.homes` makes can be run with its State and lakes elsewhere."""
    parser.addoption("--lakes", choices=["folder", "postgresql", *_BUCKETS], default="folder")
    parser.addoption("--lake-shards", type=int, default=1)


@pytest.fixture(scope="session", autouse=True)
def _all_lakes(request) -> None:
    """Where homes have State and lakes, if the command line says so."""
    _SHARDS[0] = request.config.getoption("--lake-shards")
    _SERVERS[:], _STORES[:] = _servers_of(request, request.config.getoption("--lakes"))


def lake_shards() -> int:
    """How many shards the lakes of new homes have, as the command line says."""
    return _SHARDS[0]


def need_folder() -> None:
    """Skip a test that looks at the files of a lake where they lie elsewhere."""
    if _STORES:
        pytest.skip("the lake has its files in a bucket")


def current_database() -> str:
    """Where new homes have their State, and their lakes if these are not in the home."""
    names = ["postgresql" if _SERVERS else "sqlite", *(store.scheme for store in _STORES)]
    return " ".join(names)


def state_of(home: Path) -> dict[str, str]:
    """The settings that say where State and lakes of a home are; none if they are in the home."""
    if not _SERVERS:
        return {}
    if home not in _STATES:
        _STATES[home] = new_database(_SERVERS[0])
    return {"state": _STATES[home]} | _lakes_of(home)


def _lakes_of(home: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for store in _STORES:
        prefix = _PREFIXES.setdefault(home, f"{store.scheme}://lakes/home-{next(NUMBERS)}")
        found |= {"catalog": _STATES[home], "lake": prefix, store.setting: store.url}
    return found


def copy_home(template: Path, home: Path) -> Path:
    """Copy a home that nobody has open, with its State."""
    shutil.copytree(template, home, dirs_exist_ok=True)
    if _SERVERS:
        _STATES[home] = new_database(_SERVERS[0], make_url(_STATES[template]).database)
        _copy_files(template, home)
        for name, value in state_of(home).items():
            home_settings.change(Settings(home=home, _env_file=None), name, value)
    return home


def _copy_files(template: Path, home: Path) -> None:
    """Copy the files of a home's lakes within their bucket."""
    for store in _STORES:
        _lakes_of(home)
        source, target = store.objects(_PREFIXES[template]), store.objects(_PREFIXES[home])
        for each in source.list():
            target.put_bytes(each.key, source.get(each.key))
        adopt_files(_STATES[home], _PREFIXES[home])


def adopt_files(catalog: str, prefix: str) -> None:
    """Tell the catalogs of a database that the files of their lakes are below a prefix now."""
    lakes = (
        "SELECT table_schema FROM information_schema.tables WHERE table_name = 'ducklake_metadata'"
    )
    engine = create_engine(parse_url(catalog), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for (schema,) in connection.exec_driver_sql(lakes).all():
            connection.exec_driver_sql(
                f'UPDATE "{schema}".ducklake_metadata'
                " SET value = regexp_replace(value, '^.*(?=/[^/]+/data/$)', %s)"
                " WHERE key = 'data_path'",
                (prefix,),
            )
    engine.dispose()


@pytest.fixture
def empty_database(tmp_path):
    """The URL of a database without tables."""
    return new_empty_database(tmp_path)


def new_empty_database(folder: Path) -> URL:
    """The URL of a database without tables: of a file in a folder, unless State is on a server."""
    if not _SERVERS:
        return sqlite_url(folder / "state.sqlite")
    name = f"empty_{next(NUMBERS)}"
    administrate(_SERVERS[0], f"CREATE DATABASE {name}")
    return parse_url(_SERVERS[0]).set(database=name)


@pytest.fixture
def database(tmp_path):
    """The URL of a database that is migrated and has no rows."""
    if not _SERVERS:
        return sqlite_url(Path(shutil.copy(migrated_file(), tmp_path)))
    return parse_url(new_database(_SERVERS[0]))


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
