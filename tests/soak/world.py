"""The installation that is soaked: servers, a relay, machines and their customers."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from cryptography.fernet import Fernet

from meterlake.model.resources.proposal import Document
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from tests.homes import settings
from tests.soak import clocks
from tests.soak.load import CONFIGURATION, Customer
from tests.soak.machines import (
    Machine,
    Network,
    namespaces,
    namespaces_missing,
)
from tests.soak.relay import Address, Relay, relay
from tests.soak.servers import Bucket, Database, PrefectServer, sign_in

ORGANIZATIONS: Final = ("amber", "birch", "cedar", "delta")
# How far the clock of each machine is ahead, if clocks can differ here.
CLOCKS: Final = {"north": 0, "south": 420, "west": -420}


@dataclass(slots=True)
class World:
    """Everything that runs.

    Attributes:
        routes: The addresses of the relay by machine and server.
        direct: The settings of somebody whom no fault meets.
        absent: What cannot be had here, and why.
    """

    database: Database
    bucket: Bucket
    relay: Relay
    machines: list[Machine]
    routes: dict[tuple[str, str], Address]
    direct: Settings
    customers: list[Customer]
    absent: dict[str, str]


@contextmanager
def world(folder: Path, seed: int, machines: int = 2) -> Iterator[World]:
    """Run everything until the body ends."""
    sign_in()
    absent = {
        name: reason
        for name, reason in (
            ("network namespaces", namespaces_missing()),
            ("clocks that differ", clocks.missing()),
            ("Dask", _dask_missing()),
        )
        if reason
    }
    with ExitStack() as opened:
        database, bucket = Database(), Bucket(folder / "bucket")
        prefect = PrefectServer(_home(folder, "prefect"))
        for server in (database, bucket, prefect):
            opened.callback(server.remove)
            server.start()
        names = list(CLOCKS)[:machines]
        networks: list[Any] = [Network() for _ in names]
        if "network namespaces" not in absent:
            networks = opened.enter_context(namespaces(len(names)))
        process = opened.enter_context(relay())
        shared = _shared()
        routes = {}
        made = []
        logs = folder / "logs"
        logs.mkdir()
        for name, network in zip(names, networks, strict=True):
            own = {}
            for server, target in (
                ("postgres", database.address),
                ("s3", bucket.address),
                ("prefect", prefect.address),
            ):
                own[server] = routes[name, server] = (network.gateway, free_port())
                process.open(own[server], target)
            clock_s = 0 if "clocks that differ" in absent else CLOCKS[name]
            options = shared | _addresses(own["postgres"], own["s3"])
            options |= {"prefect_url": "http://{}:{}/api".format(*own["prefect"])}
            found = settings(_home(folder, name), **options)
            made.append(Machine(name, found, logs, network, clock_s, dask="Dask" not in absent))
            opened.callback(_end, made[-1])
        direct = settings(
            _home(folder, "direct"), **shared | _addresses(database.address, bucket.address)
        )
        customers = _customers(direct, made, seed)
        yield World(database, bucket, process, made, routes, direct, customers, absent)


def _dask_missing() -> str | None:
    return None if find_spec("distributed") else "the extra meterlake[dask] is not installed"


def _shared() -> dict[str, Any]:
    return {
        "lake": "s3://lakes/soak/lakes",
        "objects": "s3://lakes/soak/objects",
        "secret_key": Fernet.generate_key().decode(),
        "segment_copies": "objects",
        "segment_lost_seconds": 30,
    }


def _addresses(postgres: Address, s3: Address) -> dict[str, str]:
    # A machine that is busy with everything at once is slow, and no fault.
    url = f"postgresql://meterlake@{postgres[0]}:{postgres[1]}/postgres?connect_timeout=10"
    return {"state": url, "catalog": url, "s3_endpoint": f"http://{s3[0]}:{s3[1]}"}


def _home(folder: Path, name: str) -> Path:
    home = folder / name
    home.mkdir()
    return home


def _customers(direct: Settings, machines: list[Machine], seed: int) -> list[Customer]:
    found = []
    for name in ORGANIZATIONS:
        made = initialize(direct, name.title())
        with open_stores(direct) as stores:
            apply(stores.state, made.org_id, [Document("soak.yaml", CONFIGURATION)], "soak")
        key = (made.access_key_id, made.api_secret)
        found.append(Customer(name, made.org_id, key, machines, seed))
    return found


def _end(machine: Machine) -> None:
    machine.kill_commands()
    for service in machine.services:
        machine.kill(service, 0)
