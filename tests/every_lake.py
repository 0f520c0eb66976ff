"""Runs every test of a folder over every kind of lake: its `conftest.py` imports the fixture.

Each test runs in a home that is a folder with SQLite; the slow suite runs it again in homes whose
State and catalog are in PostgreSQL, with the files of lakes in S3, and in GCS.
"""

from typing import Final

import pytest

# A mark of tests whose fixtures make their homes where `lake_location` says: in the folder, and slowly
# in PostgreSQL with the files of lakes in S3.
IN_S3_TOO: Final = pytest.mark.parametrize(
    "lake_location",
    [
        pytest.param("folder", id=pytest.HIDDEN_PARAM),
        pytest.param("s3", marks=pytest.mark.slow),
    ],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module", autouse=True)
def every_lake(lake_location: str) -> str:
    """Where the homes of a module have State and lakes: each test runs in a home of each kind."""
    return lake_location
