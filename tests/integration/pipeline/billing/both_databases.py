"""Worlds of balances on both databases of State."""

import pytest

from meterlake.pipeline.home.initialize import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.databases import new_database
from tests.integration.pipeline.billing.balances.test_balances import World
from tests.organizations import Clock, new_organization, open_new

# What each database does in its own way: most tests run on SQLite, and on both if they are slow.
ON_BOTH = pytest.mark.parametrize("world", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def world(request, tmp_path):
    """An organization with two balances."""
    clock, home = Clock(), tmp_path / "home"
    if request.param == "sqlite":
        with open_new(Settings(home=home, _env_file=None), clock) as stores:
            yield World(stores, new_organization(stores.state), clock)
        return
    server = new_database(request.getfixturevalue("postgresql"))
    settings = Settings(home=home, state=server, _env_file=None)
    org_id = initialize(settings, "Sample").org_id
    with open_stores(settings, clock) as stores:
        yield World(stores, org_id, clock)
