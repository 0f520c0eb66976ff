"""A Prefect server for all tests of flows, and homes for them to work on."""

import copy
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import flows  # noqa: F401  (before Prefect)
from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config import apply_configuration
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.organizations import DOCUMENTS

CODES = ("acme", "bolt")


_SERVERS = pytest.StashKey[ExitStack]()


def pytest_itemcollected(item: pytest.Item) -> None:
    """What needs the server is long: it takes 12 s of a processor to start."""
    if "prefect" in getattr(item, "fixturenames", ()):
        item.add_marker("long")


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefect")


@pytest.fixture(scope="module")
def prefect(request: pytest.FixtureRequest, prefect_home: Path) -> None:
    """Prefect's own test harness, with nothing of it outside of the test's folder.

    It serves until the last test of this folder has ended: its server is never idle.
    """
    [folder] = [each for each in request.node.iter_parents() if each.path == Path(__file__).parent]
    if _SERVERS not in folder.stash:
        folder.stash[_SERVERS] = stack = ExitStack()
        folder.addfinalizer(stack.close)
        stack.enter_context(_harness(prefect_home))


@contextmanager
def _harness(home: Path) -> Iterator[None]:
    sys.unraisablehook = without_sockets(sys.unraisablehook)
    os.environ["PREFECT_HOME"] = str(home)
    # Prefect's own warnings are not ours to mend.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from prefect.testing.utilities import prefect_test_harness

        with prefect_test_harness(server_startup_timeout=120):
            yield


def without_sockets(
    hook: Callable[["sys.UnraisableHookArgs"], Any],
) -> Callable[["sys.UnraisableHookArgs"], None]:
    """
    Prefect's clients leave sockets to the garbage collector, which finds them in whatever test
    comes later in this process; that one is not to blame.
    """

    def filtered(unraisable: "sys.UnraisableHookArgs") -> None:
        error = unraisable.exc_value
        if not (isinstance(error, ResourceWarning) and "socket" in str(error)):
            hook(unraisable)

    return filtered


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two organizations that know one meter and have one customer with a plan."""
    home = tmp_path_factory.mktemp("template") / "home"
    settings = Settings(home=home, _env_file=None)
    for code in CODES:
        made = initialize(settings, code)
        with open_stores(settings) as stores:
            documents = [Document("all.yaml", copy.deepcopy(_documents()))]
            apply_configuration.apply(stores.state, made.org_id, documents, "test")
    return home


def _documents() -> dict[str, Any]:
    return {
        **DOCUMENTS,
        "organizationConfig": {"timezone": "UTC", "daysBeforeBillDue": 14},
        "features": {"preview": True},
    }


@pytest.fixture
def home(template: Path, tmp_path: Path) -> Path:
    """A copy of that home."""
    home = tmp_path / "höme"
    shutil.copytree(template, home)
    return home


def drop(home: Path, org: str, name: str, *rows: str) -> Path:
    """Put a CSV file of usage into a drop folder, at rest already."""
    path = home / "drop" / org / "inbox" / name
    path.write_text("\n".join(["meter,account,uid,ts,measure.gb,where.region", *rows]) + "\n")
    os.utime(path, (1, 1))
    return path
