"""Each fan-out with two processes beside one, and bills of organizations one after the other.

    PYTHONPATH=src:. python tests/benchmarks/fan_outs.py --keep FOLDER
    PYTHONPATH=src:. python tests/benchmarks/fan_outs.py --accounts 1500 --each 5 --rows 20000 \\
        --repeat 1 --sample 3 --sample-accounts 200                                 # to try it

The runner is `processes`. A process has one thread of DuckDB, alone or beside the other one, and is
started within the time that is measured. Fan-outs: organizations of `aggregate`, account buckets of
`bill`, months of `backfill start re-derive`, partitions of `export usage`. One and two processes take
turns; the least time of each counts. They have to come to the same. A bucket has 10,000 accounts at
most, and a single one is no fan-out: with fewer accounts, one process is none beside the command's own.

200 organizations of `--sample-accounts` accounts are simulated by a sample of `--sample` of them,
which two processes bill one after the other. The time of each organization and the memory of its
process so far (peak RSS) have to stay flat. What `--keep` names is made once.
"""

import argparse
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean
from typing import Any, Final

import duckdb

from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.resources.proposal import Document
from meterlake.model.values.period import Period
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.export.run import export
from meterlake.pipeline.home.organizations import aggregate_organizations
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.files import ingest_files
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from meterlake.stores.fan_out import FanOutTask, TaskEnd, run_tasks, runner_of
from tests.benchmarks.bills import (
    KINDS,
    MEASUREMENTS,
    MONTH,
    billed_copy,
    catalog,
    multiply,
    write_digests,
)
from tests.benchmarks.filled import fill

ORGANIZATIONS: Final = 4
SIMULATED: Final = 200
METERS: Final = ("egress", "m1", "m2", "m3")
MONTHS: Final = (6, 7, 8, 9)
WINDOW: Final = Period(datetime(2026, 6, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
DERIVED: Final = {"category": "MEASURE", "code": "x", "name": "X", "calculation": "12 / (n0 + 2)"}
ROWS: Final = f"""
    SELECT {list(METERS)}[1 + (i % 4)::INT] AS meter, printf('account-%06d', i % $accounts) AS account,
        'u-' || i AS uid, strftime(make_timestamp(2026, 6 + (i // 4 % 4)::INT, 1, 0, 0, 0)
        + INTERVAL (i * 7919 % 2000000) SECOND, '%Y-%m-%dT%H:%M:%SZ') AS ts,
        {", ".join(f'hash(i + {n}) % 100000 / 1000 AS "measure.n{n}"' for n in range(10))}
    FROM range($rows) AS t(i)"""


# ---- homes ------------------------------------------------------------------------------------


def make_organizations(home: Path, count: int, accounts: int, each: int) -> None:
    """Organizations of so many accounts on plans, with so many measurements of each in September."""
    for number in range(count):
        org_id = _configure(home, f"Org {number + 1}", catalog(), accounts, number)
        with open_stores(Settings(home=home)) as stores:
            fill(stores.organization(org_id), MEASUREMENTS, accounts * each)
    with sqlite3.connect(home / "state.sqlite") as connection:
        write_digests(connection)


def make_months(home: Path, rows: int, accounts: int) -> None:
    """An organization with so many measurements of four meters in four months.

    All of them lack a derived field, which is younger.
    """
    content = catalog()
    [meter] = content["meters"]
    meters = [{**meter, "code": code} for code in METERS]
    org_id = _configure(home, "Months", {**content, "meters": meters}, accounts, 0)
    with open_stores(Settings(home=home)) as stores, tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        with duckdb.connect() as writer:
            writer.execute(f"COPY ({ROWS}) TO '{path}'", {"accounts": accounts, "rows": rows})
        [receipt] = ingest_files(stores.find_organization(org_id), [path], None)
        assert receipt.accepted == rows, receipt.reasons
        derived = [{**each, "derivedFields": [DERIVED]} for each in meters]
        apply(stores.state, org_id, [Document("d.yaml", {"meters": derived})], "benchmark")


def _configure(home: Path, name: str, content: dict[str, Any], accounts: int, salt: int) -> str:
    made = initialize(Settings(home=home), name)
    with open_stores(Settings(home=home)) as stores:
        apply(stores.state, made.org_id, [Document("b.yaml", content)], "benchmark")
    with sqlite3.connect(home / "state.sqlite") as connection:
        query = f"SELECT id, kind FROM entity WHERE kind IN {KINDS} AND org = ?"
        rows = connection.execute(query, [made.org_id]).fetchall()
        multiply(connection, {id_: KINDS.index(kind) for id_, kind in rows}, accounts, salt)
    return made.org_id


# ---- one measurement, in a process of its own -------------------------------------------------


def aggregate_all(stores: Stores) -> Any:
    """Aggregate all organizations: the counts of each."""
    ends = aggregate_organizations(stores, PeriodSpec.month(MONTH))
    assert not any(each.error for each in ends), ends
    return [each.value for each in ends]


def bill_first(stores: Stores) -> Any:
    """Bill one organization: how many bills, and their totals."""
    result = bill(stores.organization(stores.state.organizations()[0].id), MONTH)
    assert not result.failures, result.failures[:1]
    return len(result.bills), {name: str(total) for name, total in result.totals.items()}


def rederive(stores: Stores) -> Any:
    """Stage a backfill of all months: how many measurements differ."""
    order = Order(BackfillSpec(Mode.REDERIVE, window=WINDOW), "benchmark", "the-backfill")
    found = backfill.start(stores.find_organization(), order)
    assert found.status is BackfillStatus.STAGED
    return {name: each for name, each in found.summary.items() if isinstance(each, int)}


def export_usage(stores: Stores) -> Any:
    """Export all usage: its rows."""
    request = ExportRequest(source=Source.USAGE, format=Format.CSV)
    return export(stores.find_organization(), request).manifest["rows"]


def bill_sample(stores: Stores) -> Any:
    """Bill organizations one after the other: of each its seconds, and what its process took."""
    from tests.benchmarks import fan_outs  # Tasks are functions of a module.

    runner = runner_of(stores)
    assert runner is not None
    tasks = [
        FanOutTask(each.code, fan_outs.bill_organization, (each.id,))
        for each in stores.state.organizations()
    ]
    ended: list[TaskEnd] = []
    run_tasks(stores, runner, tasks, ended.append)
    return [{"organization": each.name, **each.value} for each in ended]


def bill_organization(stores: Stores, org_id: str) -> dict[str, Any]:
    """Bill an organization, as a task."""
    begun, cpu = time.perf_counter(), time.process_time()
    result = bill(stores.organization(org_id), MONTH)
    assert not result.failures, result.failures[:1]
    return {
        "bills": len(result.bills),
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - cpu,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "process": os.getpid(),
    }


# By the home that each needs.
FAN_OUTS: Final[dict[str, tuple[str, Callable[[Stores], Any]]]] = {
    "organizations of aggregate": ("organizations", aggregate_all),
    "account buckets of bill": ("organizations", bill_first),
    "months of backfill": ("months", rederive),
    "partitions of export": ("months", export_usage),
}
SAMPLE: Final = "sample"


def measure_here(name: str, home: Path, workers: int) -> dict[str, Any]:
    """Do a work with so many processes, each with one thread."""
    work = bill_sample if name == SAMPLE else FAN_OUTS[name][1]
    settings = Settings(home=home, threads=workers, runner="processes", runner_workers=workers)
    with open_stores(settings) as stores:
        begun = time.perf_counter()
        found = work(stores)
        seconds = time.perf_counter() - begun
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu": time.process_time() + children.ru_utime + children.ru_stime,
        "memory": children.ru_maxrss >> 10,
        "found": found,
    }


# ---- the run ----------------------------------------------------------------------------------


def measure(name: str, template: Path, workers: int) -> dict[str, Any]:
    """Do a work with a copy of a home, in a process of its own."""
    with tempfile.TemporaryDirectory(dir=template.parent) as folder:
        home = billed_copy(template, Path(folder))
        command = [sys.executable, __file__, "--measure", name, "--home", str(home)]
        done = subprocess.run(
            [*command, "--workers", str(workers)], check=False, capture_output=True, text=True
        )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(folder: Path, repeat: int) -> None:
    """Two processes beside one."""
    print("| fan-out | one process | two processes | ratio | CPU | peak memory of a process |")
    print("|---|---|---|---|---|---|", flush=True)
    for name, (home, _) in FAN_OUTS.items():
        pairs = [[measure(name, folder / home, n) for n in (1, 2)] for _ in range(repeat)]
        one, two = (min(each, key=lambda run: run["seconds"]) for each in zip(*pairs, strict=True))
        assert one["found"] == two["found"], (name, one["found"], two["found"])
        print(f"| {name} | {' | '.join(cells_of(one, two))} |", flush=True)


def cells_of(one: dict[str, Any], two: dict[str, Any]) -> Sequence[str]:
    """What the table shows of a fan-out."""
    return (
        f"{one['seconds']:.1f} s",
        f"{two['seconds']:.1f} s",
        f"{one['seconds'] / two['seconds']:.2f}",
        f"{one['cpu']:.1f} s, {two['cpu']:.1f} s",
        f"{one['memory']} MB, {two['memory']} MB",
    )


def sample(folder: Path) -> None:
    """Organizations that two processes bill one after the other, and what 200 of them would take."""
    done = measure(SAMPLE, folder / SAMPLE, 2)
    print("| organization | bills | clock | CPU | process | its peak memory so far |")
    print("|---|---|---|---|---|---|")
    found = done["found"]
    names = {process: n for n, process in enumerate(dict.fromkeys(o["process"] for o in found), 1)}
    for each in found:
        times = f"{each['seconds']:.1f} s | {each['cpu']:.1f} s"
        title = f"{each['organization']} | {each['bills']:,}"
        print(f"| {title} | {times} | {names[each['process']]} | {each['memory']} MB |")
    print(f"\n{describe_growth(found)}")
    hours = SIMULATED * mean(each["seconds"] for each in found) / 2 / 3600
    print(f"{SIMULATED} organizations, calculated: {hours:.2f} h with two processes")


def describe_growth(found: Sequence[dict[str, Any]]) -> str:
    """The last organization of each process beside its first: 1 is flat."""
    said = []
    for process in dict.fromkeys(each["process"] for each in found):
        mine = [each for each in found if each["process"] == process]
        time_, memory = (mine[-1][name] / mine[0][name] for name in ("seconds", "memory"))
        said.append(f"last of {len(mine)} beside the first: time {time_:.2f}, memory {memory:.2f}")
    return "\n".join(said)


def make(target: Path, build: Callable[[Path], None]) -> None:
    """Make a home, unless it is there."""
    if target.exists():
        return
    made = target.with_suffix(".made")
    shutil.rmtree(made, ignore_errors=True)
    build(made)
    made.rename(target)


def run(folder: Path, given: argparse.Namespace) -> None:
    begun = time.perf_counter()
    accounts, each = given.accounts, given.each
    make(
        folder / "organizations",
        lambda home: make_organizations(home, ORGANIZATIONS, accounts, each),
    )
    make(folder / "months", lambda home: make_months(home, given.rows, 1000))
    compare(folder, given.repeat)
    if given.sample:
        count, size = given.sample, given.sample_accounts
        make(folder / SAMPLE, lambda home: make_organizations(home, count, size, each))
        print()
        sample(folder)
    print(f"\n{time.perf_counter() - begun:.0f} s in all, with the homes")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--accounts", type=int, default=20_000, help="of each organization")
    parser.add_argument("--each", type=int, default=20, help="measurements of each account")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of months and exports")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--sample", type=int, default=5, help="organizations to bill; 0: none")
    parser.add_argument("--sample-accounts", type=int, default=50_000)
    parser.add_argument("--keep", type=Path, help="where homes are made and kept")
    for hidden, kind in (("--measure", str), ("--home", Path), ("--workers", int)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure_here(given.measure, given.home, given.workers)))
        return
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
        run(given.keep.absolute(), given)
        return
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
        run(Path(folder), given)


if __name__ == "__main__":
    main()
