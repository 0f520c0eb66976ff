"""What a home of many quiet organizations costs: processor and memory of its idle processes.

    PYTHONPATH=src:. python tests/benchmarks/organizations.py                # 10, 60, 300, 1,000
    PYTHONPATH=src:. python tests/benchmarks/organizations.py --counts 60 --seconds 30
    PYTHONPATH=src:. python tests/benchmarks/organizations.py --counts 1000 --batches

The worker and the API server are processes of their own. After a time to settle, what they use is
read twice from /proc: user and system time between the two, the resident memory at the second
(PSS: pages that several processes share are counted by their parts). With `--batches` every
organization then gets one batch through a segment, and the memory is read again afterwards.
`--postgres URL` has State in an empty database there, and its sessions are counted, too.
`--remote` has State and all catalogs in a PostgreSQL of its own and the lakes in a bucket of rclone.
`--home FOLDER` keeps a home to be measured again: it is made if it is not there.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from meterlake.model.values import wire
from meterlake.settings import Settings, as_environment
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from tests.many_organizations import batch, make_many
from tests.soak.servers import Bucket, Database, sign_in

_TICK = os.sysconf("SC_CLK_TCK")
_QUIET: dict[str, str] = {"METERLAKE_PREFECT_URL": ""}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def megabytes(pid: int) -> float:
    """The proportional resident memory of a process."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


@contextmanager
def running(settings: Settings, *command: str) -> Iterator[int]:
    """A process of a home; its id."""
    environment = {**os.environ, **as_environment(settings), **_QUIET}
    with subprocess.Popen([sys.executable, "-m", *command], env=environment) as process:
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


def idle(pid: int, settle: float, seconds: float) -> tuple[float, float]:
    """Percent of a core and megabytes of a process that has nothing to do."""
    time.sleep(settle)
    begun, used = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    share = (cpu_seconds(pid) - used) / (time.monotonic() - begun)
    return 100 * share, megabytes(pid)


def submit_everywhere(settings: Settings, org_ids: list[str], pid: int) -> tuple[float, float]:
    """One batch for every organization; seconds of the processor of the worker, and its peak."""
    before, peak = cpu_seconds(pid), 0.0
    with open_stores(settings) as stores:
        for number, org_id in enumerate(org_ids):
            rows = [wire.dumps(row) for row in batch(f"b{number}")["measurements"]]
            stores.segments.append(org_id, rows).result()
    give_up = time.monotonic() + 1800
    lakes = settings.home / "lakes"
    while len(list(lakes.glob("*/sources/*/*.ndjson"))) < len(org_ids):
        assert time.monotonic() < give_up
        peak = max(peak, megabytes(pid))
        time.sleep(1)
    return cpu_seconds(pid) - before, max(peak, megabytes(pid))


def sessions(state: str) -> int:
    """How many sessions PostgreSQL has of this home."""
    with psycopg.connect(state.replace("+psycopg", "")) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        ).fetchone()
    return int(row[0]) if row else 0


def measure(count: int, options: argparse.Namespace) -> None:
    """Print the row of one number of organizations."""
    with tempfile.TemporaryDirectory(prefix="meterlake-many-") as folder:
        home = options.home or Path(folder, "home")
        settings = Settings(_env_file=None, home=home, **options.places)
        if not home.exists():
            make_many(settings, count)
        with open_stores(settings) as stores:
            org_ids = [each.id for each in stores.state.organizations()]
        print(f"{len(org_ids)} organizations", flush=True)
        command = ["meterlake.api", "--port", str(free_port())]
        with running(settings, *command) as pid:
            share, memory = idle(pid, options.settle, options.seconds)
            print(f"  api     {share:6.2f} % of a core, {memory:6.0f} MB", flush=True)
        with running(settings, "meterlake.worker") as pid:
            share, memory = idle(pid, options.settle, options.seconds)
            print(f"  worker  {share:6.2f} % of a core, {memory:6.0f} MB", flush=True)
            if settings.state:
                print(f"  sessions of PostgreSQL: {sessions(settings.state)}", flush=True)
            if options.batches:
                used, peak = submit_everywhere(settings, org_ids, pid)
                share, memory = idle(pid, 5, options.seconds)
                print(
                    f"  a batch each: {1000 * used / len(org_ids):.0f} ms of the processor, peak"
                    f" {peak:.0f} MB; then {share:.2f} % of a core, {memory:.0f} MB",
                    flush=True,
                )


@contextmanager
def places(options: argparse.Namespace) -> Iterator[dict[str, str]]:
    """Where State and lakes are while the body runs, if not in the home: settings."""
    with ExitStack() as opened:
        if not options.remote:
            yield {"state": options.postgres} if options.postgres else {}
            return
        sign_in()
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="meterlake-s3-")))
        database, bucket = Database(), Bucket(folder)
        for server in (database, bucket):
            opened.callback(server.remove)
            server.start()
        lakes = {"lake": "s3://lakes/many", "s3_endpoint": bucket.url}
        yield {"state": database.url, "catalog": database.url, **lakes}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="*", default=[10, 60, 300, 1000])
    parser.add_argument("--settle", type=float, default=60)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--batches", action="store_true")
    parser.add_argument("--postgres")
    parser.add_argument("--remote", action="store_true")
    parser.add_argument("--home", type=Path)
    options = parser.parse_args()
    if options.remote and (options.batches or options.home or options.postgres):
        parser.error("--remote makes all that it needs, and sends no batches")
    for count in options.counts:
        with places(options) as options.places:
            measure(count, options)


if __name__ == "__main__":
    main()
