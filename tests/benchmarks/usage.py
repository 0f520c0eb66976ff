"""What the quantities of a month cost beside bare DuckDB and ClickHouse on the same Parquet files.

    PYTHONPATH=src:. python tests/benchmarks/usage.py                    # 10 M rows, minutes on 2 cores
    PYTHONPATH=src:. python tests/benchmarks/usage.py --rows 50000000
    PYTHONPATH=src:. python tests/benchmarks/usage.py --rows 1000000     # a quick look

A month of measurements lies in the lake of a new home, in files as ingest writes them. One aggregation of
each kind is folded per account by us, by a query written by hand for DuckDB, and by ClickHouse where the
package chdb is installed (`pip install chdb`): with the same types, the same tie-breaks, the same threads
and memory. Then a hundred aggregations in one scan, beside one of them and beside a hundred queries.
Every measurement is a process of its own that reports its time and its peak memory (RSS), for ours once
the home and its lake are open, for the others once there is a connection: what opening costs is told
apart. They take turns, and the median of `--repeat` rounds is printed.
"""

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from meterlake.model.accounts import Account
from meterlake.model.period import Month, zone
from meterlake.model.proposal import Document
from meterlake.model.sql import quoted
from meterlake.pipeline.configure import apply
from meterlake.pipeline.derivations import read_meters
from meterlake.pipeline.folding import fold
from meterlake.pipeline.initialize import initialize
from meterlake.settings import Settings
from meterlake.stages.aggregate import whole
from meterlake.stores import Stores, open_stores
from meterlake.stores.durable import sync

FILE_ROWS = 1_000_000
ACCOUNTS = 1000
NUMBERS = [f"n{n}" for n in range(16)]
TEXTS = ["region", "host"]
KINDS = ("SUM", "MIN", "MAX", "COUNT", "LATEST", "MEAN")
# What is compared with others: one of each kind.
SHOWN = [*(f"n0_{kind}" for kind in KINDS), "region_COUNT", "region_UNIQUE"]
START, END = datetime(2026, 9, 1), datetime(2026, 10, 1)
# A tie goes to the greater uid; faster than by (ts, uid), which is the same.
SORT_KEY = "create_sort_key(ts, 'ASC NULLS FIRST', uid, 'ASC NULLS FIRST')"
BARE = """
    SELECT account_id, count(*), sum("measure.n0"), min("measure.n0"), max("measure.n0"),
        count("measure.n0"), max_by("measure.n0", create_sort_key(ts, 'ASC NULLS FIRST', uid, 'ASC NULLS FIRST')),
        {{'sum': sum("measure.n0"), 'count': count("measure.n0")}},
        count("where.region"), count(DISTINCT "where.region")
    FROM read_parquet([{files}]) WHERE ts >= $start AND ts < $end GROUP BY 1 ORDER BY 1"""
CLICKHOUSE = """
    SELECT account_id, count(), sum(`measure.n0`), min(`measure.n0`), max(`measure.n0`),
        count(`measure.n0`), argMax(`measure.n0`, (ts, uid)),
        (sum(`measure.n0`), count(`measure.n0`)),
        count(`where.region`), uniqExact(`where.region`)
    FROM file('{folder}/*.parquet', Parquet)
    WHERE ts >= toDateTime64('2026-09-01', 6, 'UTC') AND ts < toDateTime64('2026-10-01', 6, 'UTC')
    GROUP BY 1 ORDER BY 1
    SETTINGS max_threads = {threads}, max_memory_usage = {memory}"""


# ---- the home ---------------------------------------------------------------------------------


def documents() -> dict[str, Any]:
    def field(code: str, category: str, **more: str) -> dict[str, str]:
        return {"category": category, "code": code, "name": code, **more}

    data = [field(code, "MEASURE") for code in NUMBERS[:14]] + [field("region", "WHERE")]
    derived = [field(code, "MEASURE", calculation="n0 + 1") for code in NUMBERS[14:]]
    derived.append(field("host", "WHAT", calculation="region"))
    kinds = [(code, kind) for code in NUMBERS for kind in KINDS]
    kinds += [(code, kind) for code in TEXTS for kind in ("COUNT", "UNIQUE")]
    return {
        "meters": [{"code": "egress", "name": "E", "dataFields": data, "derivedFields": derived}],
        "accounts": [
            {"code": f"account-{n:04}", "name": "A", "emailAddress": "bills@a.example"}
            for n in range(ACCOUNTS)
        ],
        "aggregations": [
            {
                "code": f"{code}_{kind}",
                "name": code,
                "meterId": "egress",
                "targetField": code,
                "aggregation": kind,
                "rounding": "NONE",
                "quantityPerUnit": 1,
                "unit": "unit",
            }
            for code, kind in kinds
        ],
    }


def fill(stores: Stores, org_id: str, rows: int) -> list[str]:
    """Put measurements into the lake as ingest does, without reading them from a source."""
    apply(stores.state, org_id, [Document("b.yaml", documents())], "benchmark")
    with stores.state.reading(org_id) as reader:
        ids = sorted(each.id for each in reader.all(Account))
    meter = read_meters(stores.state, org_id)[0]["egress"]
    numbers = ", ".join(
        f'(hash(i + {n}) % {10 ** (3 + n % 5)} / 1000)::DECIMAL(38,12) AS "measure.{code}"'
        for n, code in enumerate(NUMBERS)
    )
    select = f"""
        SELECT 'u-' || i AS uid, $accounts[1 + (hash(i) % len($accounts))::INT] AS account_id,
            TIMESTAMP '2026-09-01' + INTERVAL (i * 7919 % 2592000) SECOND AS ts,
            NULL::TIMESTAMP AS ets, TIMESTAMP '2026-10-01' AS received_at, 'benchmark' AS source,
            i::BIGINT AS row, 0::SMALLINT AS part, {numbers},
            'region-' || hash(i + 77) % 30 AS "where.region",
            'host-' || hash(i + 78) % 500 AS "what.host"
        FROM range($first, $last) AS t(i)"""
    lake = stores.lake(org_id)
    staging, files = lake.new_staging("benchmark"), []
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, meter)
        for number, first in enumerate(range(0, rows, FILE_ROWS)):
            staged = staging / f"{number}.parquet"
            target = f"{quoted(staged)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            bound = {"accounts": ids, "first": first, "last": min(rows, first + FILE_ROWS)}
            with duckdb.connect() as writer:
                writer.execute(f"COPY ({select}) TO {target}", bound)
            sync(staged)
            name = f"year=2026/month=9/{staged.name}"
            files.append(str(lake.register(connection, meter.table, staged, name)))
    lake.drop_staging("benchmark")
    return files


# ---- one measurement, in a process of its own -------------------------------------------------


Case = Callable[[], int]


@contextmanager
def folded(settings: Settings, wanted: list[list[str]]) -> Iterator[Case]:
    """Our quantities: one scan for each list of aggregations; the measurements that were counted."""
    with open_stores(settings) as stores:
        org = stores.state.organization()
        configuration = stores.state.configuration(org.id)
        lake = stores.lake(org.id)
        snapshot = lake.snapshot()
        period = Month(2026, 9).period(zone("UTC"))

        def run() -> int:
            counted = 0
            for codes in wanted:
                among = set(codes)
                [used] = fold(
                    lake,
                    configuration,
                    snapshot,
                    lambda _: [whole(period)],
                    chosen=lambda each, among=among: each.code in among,
                ).values()
                counted = sum(each.measurements for each in used)
                assert sum(len(each.quantities) for each in used) == len(used) * len(codes)
            return counted

        yield run


@contextmanager
def by_duckdb(settings: Settings, sql: str, files: list[str]) -> Iterator[Case]:
    config = {"memory_limit": settings.duckdb_memory, "threads": settings.threads}
    with duckdb.connect(config=config) as connection:
        text = sql.format(files=", ".join(quoted(file) for file in files))

        def run() -> int:
            rows = connection.execute(text, {"start": START, "end": END}).fetchall()
            return sum(row[1] for row in rows)

        yield run


@contextmanager
def by_clickhouse(settings: Settings, files: list[str]) -> Iterator[Case]:
    import chdb

    memory = int(settings.duckdb_memory.removesuffix("MB")) * 10**6
    folder = Path(files[0]).parent
    sql = CLICKHOUSE.format(folder=folder, threads=settings.threads, memory=memory)

    def run() -> int:
        answer = chdb.query(sql, "JSONCompactEachRow")
        return sum(int(json.loads(line)[1]) for line in str(answer).splitlines() if line)

    yield run


def every() -> list[str]:
    return [each["code"] for each in documents()["aggregations"]]


def hundred() -> str:
    """The hundred aggregations in bare DuckDB."""
    values = []
    for code in NUMBERS:
        column = f'"measure.{code}"'
        values += [f"{name}({column})" for name in ("sum", "min", "max", "count")]
        values.append(f"max_by({column}, {SORT_KEY})")
        values.append(f"{{{{'sum': sum({column}), 'count': count({column})}}}}")
    for column in ('"where.region"', '"what.host"'):
        values += [f"count({column})", f"count(DISTINCT {column})"]
    return (
        f"SELECT account_id, count(*), {', '.join(values)} FROM read_parquet([{{files}}])"
        " WHERE ts >= $start AND ts < $end GROUP BY 1 ORDER BY 1"
    )


CASES: dict[str, Callable[[Settings, list[str]], AbstractContextManager[Case]]] = {
    "ours": lambda settings, _: folded(settings, [SHOWN]),
    "bare DuckDB": lambda settings, files: by_duckdb(settings, BARE, files),
    "ClickHouse": by_clickhouse,
    "1 aggregation": lambda settings, _: folded(settings, [["n0_SUM"]]),
    "100 in one scan": lambda settings, _: folded(settings, [every()]),
    "100, bare DuckDB": lambda settings, files: by_duckdb(settings, hundred(), files),
    "100 queries": lambda settings, _: folded(settings, [[code] for code in every()]),
}


# It takes minutes, and is many queries in itself.
ONCE = {"100 queries"}


def measure(name: str, home: Path, files: list[str]) -> None:
    settings = Settings(home=home)
    opening = time.process_time()
    with CASES[name](settings, files) as case:
        start, busy = time.perf_counter(), time.process_time()
        opening = busy - opening
        counted = case()
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = {"seconds": seconds, "cpu": busy, "opening": opening, "mb": peak, "counted": counted}
    print(json.dumps(found))


# ---- the comparison ---------------------------------------------------------------------------


def run(name: str, home: Path, files: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--case", name, "--home", str(home), "--files", str(files)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def compare(home: Path, rows: int, repeat: int) -> None:
    listed = home / "files.json"
    # In a process of its own: a child's peak memory begins with its parent's.
    started = [sys.executable, __file__, "--rows", str(rows), "--home", str(home)]
    subprocess.run([*started, "--files", str(listed)], check=True)
    cases = [each for each in CASES if each != "ClickHouse" or importlib.util.find_spec("chdb")]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in cases}
    for number in range(repeat):
        for name in cases:
            if name not in ONCE or number == 0:
                found[name].append(run(name, home, listed))
    assert {each["counted"] for runs in found.values() for each in runs} == {rows}, found
    times = {name: statistics.median(each["seconds"] for each in found[name]) for name in cases}
    # Where others use the machine too, processor time says more than the clock.
    busy = {name: statistics.median(each["cpu"] for each in found[name]) for name in cases}
    opening = {name: statistics.median(each["opening"] for each in found[name]) for name in cases}
    print(f"{rows:,} measurements, {ACCOUNTS} accounts, median of {repeat}")
    for name in cases:
        peak = max(each["mb"] for each in found[name])
        ratios = [each[name] / each["bare DuckDB"] for each in (times, busy)]
        print(
            f"{name:<16} {times[name]:8.2f} s {busy[name]:8.2f} s of CPU {peak:6.0f} MB"
            f" {ratios[0]:7.2f} x bare DuckDB {ratios[1]:7.2f} x its CPU"
            f" (opening: {opening[name]:.2f} s of CPU)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--home", type=Path)
    parser.add_argument("--files", type=Path)
    asked = parser.parse_args()
    if asked.case:
        measure(asked.case, asked.home, json.loads(asked.files.read_text()))
        return
    if asked.home:
        initialize(Settings(home=asked.home), "Benchmark")
        with open_stores(Settings(home=asked.home)) as stores:
            files = fill(stores, stores.state.organization().id, asked.rows)
        asked.files.write_text(json.dumps(files))
        return
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        compare(home, asked.rows, asked.repeat)


if __name__ == "__main__":
    main()
