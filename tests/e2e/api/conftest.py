"""One server for all tests of a file, and what their requests refer to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from m3ter import M3ter

from tests.e2e.api.world import World
from tests.postgres import missing, postgres
from tests.served import Served, served

SQLITE, POSTGRESQL = "sqlite", "postgresql"


def pytest_generate_tests(metafunc):
    # A file that says so runs on both databases.
    if "server" in metafunc.fixturenames:
        databases = getattr(metafunc.module, "DATABASES", (SQLITE,))
        slow = getattr(metafunc.module, "SLOW_DATABASES", ())
        names = [*databases, *slow]
        params = [*databases, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)]
        ids = [""] if names == [SQLITE] else names
        metafunc.parametrize("server", params, ids=ids, indirect=True, scope="module")


@pytest.fixture(scope="module")
def server(request, tmp_path_factory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("served") / "home"
    with _database(request.param) as state, served(home, **state) as running:
        yield running


@contextmanager
def _database(name: str) -> Iterator[dict[str, str]]:
    if name == SQLITE:
        yield {}
        return
    why = missing()
    if why is not None:
        pytest.skip(why)
    with postgres() as url:
        yield {"state": url}


@pytest.fixture(scope="module")
def sdk(server) -> Iterator[M3ter]:
    with server.sdk() as client:
        yield client


@pytest.fixture(scope="module")
def lenient(server) -> Iterator[M3ter]:
    """The SDK as it is by default: its types are no conditions."""
    with server.sdk(_strict_response_validation=False) as client:
        yield client


@pytest.fixture(scope="module")
def http(server):
    with server.http() as client:
        yield client


@pytest.fixture(scope="module")
def world(sdk) -> World:
    return World(sdk)
