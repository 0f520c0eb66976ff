"""Homes that are made once for all tests of a file, and copied for each."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.databases import copy_home
from tests.every_lake import every_lake
from tests.homes import Home, new_home, open_home

__all__ = ["copies", "every_lake"]


@pytest.fixture(scope="module")
def copies(every_lake, tmp_path_factory):  # noqa: ARG001
    """Gives copies of the home that a function prepares."""
    made: dict[Callable[[Home], None], tuple[Path, str]] = {}

    @contextmanager
    def copy_of(prepare: Callable[[Home], None]) -> Iterator[Home]:
        if prepare not in made:
            path = tmp_path_factory.mktemp("template") / "home"
            made[prepare] = path, new_home(path)
            with open_home(*made[prepare]) as home:
                prepare(home)
        path, org_id = made[prepare]
        target = copy_home(path, path.with_name(f"home-{uuid4().hex[:8]}"))
        with open_home(target, org_id, threads=1) as home:
            yield home
        shutil.rmtree(target, ignore_errors=True)

    return copy_of
