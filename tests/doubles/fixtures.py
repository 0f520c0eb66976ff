"""Object stores and small homes as fixtures: `pytest_plugins = ["tests.doubles.fixtures"]`."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.objects import ObjectStore, open_objects
from tests.databases import copy_home, current_database
from tests.doubles import ceph
from tests.doubles.faults import FaultyNetwork
from tests.doubles.homes import Clock, Home, small_home

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """An empty place for objects: what to open, with which settings, and where its server is."""

    kind: str
    url: str
    settings: Settings
    server: str | None = None

    def open(self) -> ObjectStore:
        """The store of this place."""
        return open_objects(self.url, self.settings)

    @property
    def endpoints(self) -> dict[str, str]:
        """Which of its settings say where its server is."""
        return self.settings.model_dump(include={"s3_endpoint", "gcs_endpoint"}, exclude_none=True)

    def through(self, network: FaultyNetwork) -> ObjectStore:
        """The same store, reached over a network that fails."""
        endpoint = {"gs": "gcs_endpoint"}.get(self.kind, "s3_endpoint")
        return open_objects(self.url, self.settings.model_copy(update={endpoint: network.url}))


@pytest.fixture(scope="session")
def radosgw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reason = ceph.missing()
    if reason:
        pytest.skip(reason)
    with ceph.ceph_server(tmp_path_factory.mktemp("ceph")) as url:
        yield url


@pytest.fixture
def s3_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ceph.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ceph.SECRET_KEY)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in (
        "AWS_PROFILE",
        "AWS_SESSION_TOKEN",
        "AWS_DEFAULT_REGION",
        "AWS_REGION",
        "AWS_ENDPOINT_URL",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    # The session that boto3 shares keeps the credentials of whichever test came first.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    return ceph.ACCESS_KEY


def _s3_place(kind: str, server: str) -> Place:
    bucket = f"test-{next(_numbers)}"
    client: Any = boto3.client("s3", endpoint_url=server, region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    client.close()
    return Place(kind, f"s3://{bucket}/some/prefix", Settings(s3_endpoint=server), server)


@pytest.fixture
def new_place(
    request: pytest.FixtureRequest, s3_credentials: str, tmp_path: Path
) -> Callable[[str], Place]:
    """Make an empty place of a kind: `local`, `moto`, `radosgw`, `gs`."""
    assert s3_credentials

    def make(kind: str) -> Place:
        if kind == "local":
            return Place(kind, str(tmp_path / "objects"), Settings())
        if kind == "gs":
            server = request.getfixturevalue("strict_gcs")
            url = f"gs://test-bucket/prefix-{next(_numbers)}"
            return Place(kind, url, Settings(gcs_endpoint=server), server)
        return _s3_place(kind, request.getfixturevalue(kind))

    return make


@pytest.fixture(params=["local", "moto", "gs", pytest.param("radosgw", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, new_place: Callable[[str], Place]) -> Place:
    """An empty place, of every kind in turn."""
    return new_place(request.param)


@pytest.fixture(scope="session")
def home_template() -> Path:
    """The folder of a small home with one of everything; copy it."""
    return small_home(current_database())


@pytest.fixture
def home(home_template: Path, tmp_path: Path) -> Iterator[Home]:
    """A small home of the test's own, on a path with spaces and umlauts, open."""
    folder = tmp_path / "ein Zuhause mit ä"
    copy_home(home_template, folder)
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        yield Home.of(stores, clock)


@pytest.fixture(scope="module")
def lasting_home(home_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("destinations") / "home"
    copy_home(home_template, folder)
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        yield Home.of(stores, clock)


@pytest.fixture
def export_home(lasting_home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """One home for all tests, with settings that each changes for itself."""
    delays = "botocore.retries.standard.ExponentialBackoff.delay_amount"
    monkeypatch.setattr(delays, lambda *_: 0.001)
    before = lasting_home.stores.settings
    lasting_home.clock.later(minutes=1)  # The jobs of a test are the newest ones.
    yield lasting_home
    lasting_home.stores.settings = before


@pytest.fixture
def export_bucket(new_place: Callable[[str], Place]) -> tuple[Place, str]:
    """An empty bucket, in which exports go below `some/prefix`."""
    place = new_place("moto")
    return place, place.url.split("/")[2]
