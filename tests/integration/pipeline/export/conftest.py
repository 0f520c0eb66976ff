"""Each test runs in a home of each kind."""

from pathlib import Path

import pytest

from tests.databases import current_database
from tests.doubles.homes import small_home
from tests.every_lake import every_lake

__all__ = ["every_lake"]


@pytest.fixture(scope="module")
def home_template(every_lake: str) -> Path:
    """The folder of a small home of the kind that it is the turn of; copy it."""
    assert every_lake
    return small_home(current_database())
