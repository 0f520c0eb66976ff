"""One server for all tests of a file, and what their requests refer to."""

from collections.abc import Iterator

import pytest
from m3ter import M3ter

from tests.databases import new_database
from tests.e2e.api.world import World
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
    with served(home, **_state_of(request)) as running:
        yield running


def _state_of(request) -> dict[str, str]:
    if request.param == SQLITE:
        return {}
    return {"state": new_database(request.getfixturevalue("postgresql"))}


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
