"""What a commit costs against a large history, by the number of shards.

`python -m tests.benchmarks.shards --history 10000000 --rows 100000 1000000 --shards 1 2 4 8`
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from meterlake.model.measurements.receipt import Delivery
from meterlake.pipeline.ingest import run as runs
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.maintenance.move_lake import shard_lake
from meterlake.stores.lake.lake import Lake
from tests.homes import HEADER, csv_row, new_home, open_home

REPEATED = 100


def main() -> None:
    """Fill a home once, and measure each number of shards in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--history", type=int, default=10_000_000)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--measure", nargs=3)
    options = parser.parse_args()
    if options.measure:
        path, org_id, count = options.measure
        measure(Path(path), org_id, int(count), options.rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        org_id = new_home(home)
        fill(home, org_id, options.history)
        for count in options.shards:
            words = ["--measure", str(home), org_id, str(count), "--rows"]
            command = [sys.executable, "-m", "tests.benchmarks.shards", *words]
            subprocess.run([*command, *map(str, options.rows)], check=True)


def fill(home: Path, org_id: str, rows: int) -> None:
    """Have an index of so many uids, and a source that others repeat."""
    with open_home(home, org_id) as opened:
        ingest(opened, source(REPEATED * 1000, "known"))
        lake = opened.stores.lake(org_id)
        for start in range(0, rows, 1_000_000):
            with lake.lock(), lake.transaction() as connection:
                connection.execute(
                    "INSERT INTO lake.uid_index BY NAME SELECT uuid()::VARCHAR AS uid,"
                    " hash(n, 'history') AS uid_hash, hash(n) AS content_hash, 'm' AS meter_id,"
                    " repeat('ab', 32) AS source, n AS row, 0 AS part"
                    f" FROM range({start}, {min(rows, start + 1_000_000)}) t(n)"
                )


def source(rows: int, name: str, repeats: int = 0) -> bytes:
    """A file of new uids, but for some of the source that is known."""
    known = (csv_row(f"known-{number}") for number in range(repeats))
    new = (csv_row(f"{name}-{number}") for number in range(rows - repeats))
    return "".join([HEADER, *known, *new]).encode()


def ingest(home, data: bytes):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        delivery = Delivery(str(uuid4()), "a.csv", datetime.now(UTC))
        return ingest_file(home.organization, Path(file.name), delivery)


@contextmanager
def timed(owner, name: str, times: dict[str, list[float]]):
    """Have a function write down how long it took: wall and CPU."""
    original = getattr(owner, name)

    def wrapper(*args, **options):
        begin = time.perf_counter(), time.process_time()
        try:
            return original(*args, **options)
        finally:
            times[name] = [time.perf_counter() - begin[0], time.process_time() - begin[1]]

    setattr(owner, name, wrapper)
    yield
    setattr(owner, name, original)


@contextmanager
def lock_times(times: dict[str, list[float]]):
    """Have the lake's lock write down how long it was held."""
    original = Lake.lock

    @contextmanager
    def lock(self, timeout_s: float = -1):
        with original(self, timeout_s):
            begin = time.perf_counter(), time.process_time()
            yield
            times["lock"] = [time.perf_counter() - begin[0], time.process_time() - begin[1]]

    Lake.lock = lock
    yield
    Lake.lock = original


def measure(path: Path, org_id: str, count: int, rows: list[int]) -> None:
    """Print what commits of new sources, and of sources with repeats, take."""
    with open_home(path, org_id) as home:
        organization = home.stores.organization(org_id)
        begin = time.process_time()
        shard_lake(organization, count)
        built = time.process_time() - begin
        ingest(home, source(1000, str(uuid4())))
        cache = organization.lake.cache
        size = sum(file.stat().st_size for file in cache.rglob("*.u64"))
        print(json.dumps({"shards": count, "build_cpu": round(built, 2), "index_mb": size >> 20}))
        for number in rows:
            for repeats in (0, number // REPEATED):
                data = source(number, str(uuid4()), repeats)
                times: dict[str, list[float]] = {}
                with timed(runs, "commit", times), lock_times(times):
                    receipt = ingest(home, data)
                assert receipt.repeats == repeats
                shown = {name: [round(each, 3) for each in found] for name, found in times.items()}
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
                line = {"shards": count, "rows": number, "repeats": repeats, **shown}
                print(json.dumps(line | {"peak_mb": peak}), flush=True)


if __name__ == "__main__":
    main()
