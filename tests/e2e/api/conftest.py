"""One server for all tests of a file, and what their requests refer to."""

from collections.abc import Iterator

import pytest
from m3ter import M3ter

from tests.e2e.api.world import World
from tests.served import Served, served


@pytest.fixture(scope="module")
def server(home_database, tmp_path_factory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp(home_database) / "home") as running:
        yield running


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
