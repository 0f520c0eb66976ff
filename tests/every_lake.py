"""Tests of a whole folder ask where lakes are: its `conftest.py` imports the fixture.

Each test runs in a home that is a folder with SQLite; `.ci/matrix` runs it again in homes whose
State and catalog are in PostgreSQL, with the files of lakes in S3, and in GCS.
"""

from typing import Final

import pytest

# A mark of sweeps of crashes: they are slow, and the matrix runs them over lakes in S3 all the same.
IN_S3_TOO: Final = pytest.mark.crash_sweep


@pytest.fixture(scope="module", autouse=True)
def every_lake(lake_location: str) -> str:
    """Where the homes of a module have State and lakes."""
    return lake_location
