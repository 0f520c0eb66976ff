"""A home with the sample organization and two of its files."""

import shutil
from pathlib import Path

import pytest

import sample_data
from meterlake.cli import run

FILES = ("03-storage-days-01-10.json", "11-llm-bad-rows.csv")


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory) -> Path:
    """Built once; copy it before you change it."""
    home = tmp_path_factory.mktemp("cli") / "home"
    at = ["--home", str(home), "--json"]
    assert run(["init", "--name", "Halvorsen Cloud", *at]) == 0
    assert run(["config", "apply", str(sample_data.CONFIGURATION), *at]) == 0
    paths = [str(sample_data.MEASUREMENTS / name) for name in FILES]
    assert run(["ingest", *paths, *at]) == 0
    return home


@pytest.fixture
def home(sample_home, tmp_path) -> Path:
    """A copy of the home that a test may change."""
    return Path(shutil.copytree(sample_home, tmp_path / "home"))
