"""Worlds of balances, on the database that `--lakes` names."""

import pytest

from meterlake.settings import Settings
from tests.databases import state_of
from tests.integration.pipeline.billing.balances.test_balances import World
from tests.organizations import Clock, new_organization, open_new

# What each database does in its own way: whatever lands passes on both.
ON_BOTH = pytest.mark.on_both


@pytest.fixture
def world(home_database, tmp_path):
    """An organization with two balances."""
    assert home_database
    clock, home = Clock(), tmp_path / "home"
    with open_new(Settings(home=home, _env_file=None, **state_of(home)), clock) as stores:
        yield World(stores, new_organization(stores.state), clock)
