"""What the length of a lake's history costs: commits, repeats, sums, lists, catalog and upkeep.

    PYTHONPATH=src:. python tests/benchmarks/curve.py --rows 10M,100M,1B --keep FOLDER
    PYTHONPATH=src:. python tests/benchmarks/curve.py --rows 10M --only commits,lists
    PYTHONPATH=src:. python tests/benchmarks/curve.py --files 1k,10k,60k

A history of 1 B rows takes 11 GB of disk, its index 8 GB more, and a quarter of an hour of one core; what
`--keep` names is made once. The rows are narrow and compress well (see `history.py`): disk and reads are
less than those of real rows, the work for each row is the same.

Every measurement is a process of its own that reports its time, its CPU time and its peak memory (RSS).
`--files` measures what the number of files costs instead, with a few rows in each.
"""

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[2]))

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values.period import Month
from meterlake.model.values.problems import read
from meterlake.pipeline.explorer.explore import explore
from meterlake.pipeline.ingest.derivations import read_meters
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.usage.aggregate import calculate
from meterlake.stages.ingest.validate.parse_columns import uid_hashes
from meterlake.stores import Organization
from meterlake.stores.lake import receipts, rejected
from meterlake.stores.lake.tables import newest_snapshot
from tests.benchmarks.history import codes, fill, history_at, uid

UNITS = {"k": 10**3, "M": 10**6, "B": 10**9}
HEADER = "meter,account,uid,ts,measure.gb,where.region\n"
MONTH = Month(2026, 9)
SMALL = 1_000
PAGE = 100
PAGE_TIMES = 3
# Files that are registered to see what each costs.
_REGISTERED = 1_100
Result = dict[str, float]


class Watch:
    """Seconds of the clock and of the processor."""

    def __init__(self) -> None:
        self.clock, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> Result:
        return {
            "s": time.perf_counter() - self.clock,
            "cpu": time.process_time() - self.cpu,
        }


# ---- one measurement, in a process of its own -------------------------------------------------


def measure_index(organization: Organization) -> Result:
    """Build the index of known uids again."""
    lake = organization.lake
    lake.uids.forget()
    watch = Watch()
    with lake.lock(), lake.reader() as connection:
        lake.uids.refresh(connection, newest_snapshot(connection))
    found = watch.read()
    size = sum(path.stat().st_size for path in (lake.cache / "uids").iterdir())
    return {**found, "bytes": size}


def measure_commits(organization: Organization) -> Result:
    """Sources of 1,000 new rows, one after the other, as the worker ingests segments."""
    return _commits(organization, repeats=0, times=40)


def measure_repeats(organization: Organization) -> Result:
    """The same with 10 rows in each that came before."""
    return _commits(organization, repeats=10, times=2)


def _commits(organization: Organization, repeats: int, times: int) -> Result:
    each, cpu = [], []
    for _ in range(times):
        watch = Watch()
        _ingest(organization, new_rows(SMALL - repeats) + old_rows(repeats), repeats)
        found = watch.read()
        each.append(found["s"])
        cpu.append(found["cpu"])
    half = times // 2  # The first ones open what all others use.
    return {
        "s": statistics.median(each[half:]),
        "cpu": statistics.median(cpu[half:]),
        "first": each[0],
    }


def measure_new_100k(organization: Organization) -> Result:
    """A file of 100,000 rows that are all new."""
    return _file(organization, 100_000, 0)


def measure_new_1m(organization: Organization) -> Result:
    """A file of 1 M rows that are all new."""
    return _file(organization, 1_000_000, 0)


def measure_old_100k(organization: Organization) -> Result:
    """A file of 100,000 rows of which 1 % came before."""
    return _file(organization, 99_000, 1_000)


def measure_old_1m(organization: Organization) -> Result:
    """A file of 1 M rows of which 1 % came before."""
    return _file(organization, 990_000, 10_000)


def _file(organization: Organization, new: int, old: int) -> Result:
    _ingest(organization, new_rows(SMALL), 0)  # Opens the lake and completes its caches.
    text = new_rows(new) + old_rows(old)
    watch = Watch()
    _ingest(organization, text, old)
    return watch.read()


def _ingest(organization: Organization, text: str, repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "source.csv")
        path.write_text(HEADER + text)
        delivery = Delivery(str(uuid4()), path.name, datetime.now(UTC), own=True)
        receipt = ingest_file(organization, path, delivery)
    assert receipt.repeats == repeats, receipt
    assert receipt.rejected == 0, receipt


def new_rows(count: int) -> str:
    """Lines with uids that nobody has."""
    head, known = uuid4().hex[:12], codes()
    return "".join(
        f"egress,{known[n % len(known)]},{head}-{n},2026-09-{1 + n % 28:02}T10:00:00Z,1.25,eu\n"
        for n in range(count)
    )


def old_rows(count: int) -> str:
    """Lines that equal rows of the history's first file."""
    known = codes()
    lines = []
    for k in range(count):
        day, second = divmod(k * 7919 % 2_419_200, 86_400)
        at = f"2026-01-{1 + day:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
        region = ("eu", "us", "ap")[k % 3]
        lines.append(f"egress,{known[k]},{uid(k)},{at},{k % 997}.25,{region}\n")
    return "".join(lines)


def measure_quantities(organization: Organization) -> Result:
    """Sums of one month by account."""
    organization.lake.open_to_read()
    watch = Watch()
    found = calculate(organization, MONTH)
    return {**watch.read(), "rows": len(found.rows)}


def measure_lists(organization: Organization) -> Result:
    """Pages of 100, and single rows, as people ask for them; medians of CPU."""
    organization.lake.open_to_read()
    works = {
        "measurements": lambda: _explore(organization, {}),
        "sum": lambda: _explore(organization, _daily_sum(organization)),
        "rejected": lambda: _page(organization),
        "sources": lambda: _sources(organization),
        "uid": lambda: _find(organization),
    }
    return {name: _median(work) for name, work in works.items()}


def _median(work: Callable[[], object]) -> float:
    times = []
    for _ in range(PAGE_TIMES):
        watch = Watch()
        work()
        times.append(watch.read()["cpu"])
    return statistics.median(times)


def _explore(organization: Organization, more: dict[str, Any]) -> None:
    """One account's rows of a day of the last month, or their sum."""
    with organization.reading() as reader:
        meter = reader.find(Meter, "egress")
    assert meter is not None
    body = {
        "startDate": "2026-09-03T00:00:00Z",
        "endDate": "2026-09-04T00:00:00Z",
        "meterIds": [meter.id],
        "limit": PAGE,
        **more,
    }
    explore(organization, read(UsageQueryRequest, body)).to_json()


def _daily_sum(organization: Organization) -> dict[str, Any]:
    with organization.reading() as reader:
        meter = reader.find(Meter, "egress")
    assert meter is not None
    sums = [{"meterId": meter.id, "fieldCode": "gb", "fieldType": "MEASURE", "function": "SUM"}]
    return {"aggregations": sums, "groups": [{"groupType": "TIME", "frequency": "DAY"}]}


def _page(organization: Organization) -> None:
    with organization.lake.reader() as connection:
        assert len(rejected.page(connection, rejected.RejectedFilter(), PAGE)) <= PAGE


def _sources(organization: Organization) -> None:
    with organization.lake.reader() as connection:
        assert receipts.list_receipts(connection, receipts.ReceiptFilters(), PAGE)


def _find(organization: Organization) -> None:
    import polars as pl

    known = uid(77)
    with organization.lake.reader() as connection:
        assert receipts.seen(connection, [(known, uid_hashes(pl.Series([known]))[0])])


def measure_catalog(organization: Organization) -> Result:
    """How large the catalog is."""
    [path] = organization.lake.folder.glob("*.sqlite")
    with sqlite3.connect(path) as catalog:
        names = [
            name
            for (name,) in catalog.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        rows = {
            name: catalog.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names
        }
    return {
        "rows": sum(rows.values()),
        "bytes": path.stat().st_size,
        "files": rows["ducklake_data_file"],
        "snapshots": rows["ducklake_snapshot"],
        "statistics": rows["ducklake_file_column_stats"],
    }


def measure_upkeep(organization: Organization) -> Result:
    """Upkeep of what the other measurements left, and again where there is nothing to do."""
    watch = Watch()
    done = maintain(organization)
    first, watch = watch.read(), Watch()
    maintain(organization)
    again = watch.read()
    files = float(done.compacted_files)
    return {**first, "files": files, "again_s": again["s"], "again_cpu": again["cpu"]}


MEASURES: dict[str, Callable[[Organization], Result]] = {
    name.removeprefix("measure_"): work
    for name, work in list(globals().items())
    if name.startswith("measure_")
}


# ---- the number of files ----------------------------------------------------------------------


def register_files(organization: Organization, count: int, at_once: int) -> Result:
    """Give the lake so many small files more, so many in each commit; seconds for each of them."""
    meter = read_meters(organization.state, organization.id)[0]["egress"]
    lake = organization.lake
    model = next((lake.folder / "data" / "main" / meter.table).rglob("*.parquet"))
    watch = Watch()
    for start in range(0, count, at_once):
        with lake.lock(), lake.transaction() as connection:
            for each in range(start, min(count, start + at_once)):
                staged = lake.staging / f"{each}.parquet"
                os.link(model, staged)
                month = model.parent.name
                lake.register(
                    connection, meter.table, staged, f"year=2026/{month}/{uuid4()}.parquet"
                )
    found = watch.read()
    return {"s": found["s"] / count, "cpu": found["cpu"] / count}


# ---- all of them ------------------------------------------------------------------------------


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="meterlake-curve-") as folder:
        yield Path(folder)


def run(work: str, home: Path, *more: str) -> Result:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", work, str(home), *more]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=counts, default=[])
    parser.add_argument("--files", type=counts, default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(MEASURES))
    parser.add_argument("--measure", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        _measure(*given.measure)
        return
    with _folder(given.keep) as folder:
        for rows in given.rows:
            _curve(folder / str(rows), rows, given.only)
        for files in given.files:
            _files(folder / f"files-{files}", files)


def counts(text: str) -> list[int]:
    """Numbers such as `10M,1B`."""
    return [
        int(float(word[:-1]) * UNITS[word[-1]]) if word[-1] in UNITS else int(word)
        for word in text.split(",")
    ]


def _curve(home: Path, rows: int, only: list[str]) -> None:
    print(json.dumps({"rows": rows, "load": os.getloadavg()}), flush=True)
    print(json.dumps({"filled": run("fill", home, str(rows))}), flush=True)
    for work in only:
        print(json.dumps({work: run(work, home)}), flush=True)


def _files(home: Path, files: int) -> None:
    print(json.dumps({"files": files, "load": os.getloadavg()}), flush=True)
    run("fill", home, "1000")
    for at_once in (1, 10, 100):
        print(json.dumps({f"register by {at_once}": run("register", home, "200", str(at_once))}))
    if files > _REGISTERED:
        run("register", home, str(files - _REGISTERED), "500")
    print(json.dumps({"register by 500": run("register", home, "500", "500")}), flush=True)
    for work in ("commits", "quantities", "lists", "catalog"):
        print(json.dumps({work: run(work, home)}), flush=True)


def _measure(work: str, home: str, *more: str) -> None:
    with history_at(Path(home)) as (stores, org_id):
        organization = stores.organization(org_id)
        if work == "fill":
            watch = Watch()
            fill(organization, int(more[0]))
            found = watch.read()
        elif work == "register":
            found = register_files(organization, int(more[0]), int(more[1]))
        else:
            found = MEASURES[work](organization)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({name: round(value, 5) for name, value in (found | {"peak": peak}).items()}))


if __name__ == "__main__":
    main()
