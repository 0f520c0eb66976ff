"""What the quantities of a month cost beside bare DuckDB and ClickHouse on the same Parquet files.

    PYTHONPATH=src:. python tests/benchmarks/usage.py                    # 10 M rows, minutes on 2 cores
    PYTHONPATH=src:. python tests/benchmarks/usage.py --rows 1000000     # a quick look
    PYTHONPATH=src:. python tests/benchmarks/usage.py --rows 50000000 --keep FOLDER --prepare
    PYTHONPATH=src:. python tests/benchmarks/usage.py --rows 50000000 --keep FOLDER

The data of 50 M rows takes 4 GB of disk; what `--keep` names is made once. `--only` chooses cases.

A month of measurements lies in the lake of a new home, in files as ingest writes them. One aggregation of
each kind is folded per account by us, by a query written by hand for DuckDB, and by ClickHouse where the
package chdb is installed (`pip install chdb`): with the same types, the same tie-breaks, the same threads
and memory. Then a hundred aggregations in one scan, beside one of them and beside a hundred queries,
and eight numbers of which four are cut into segments, beside two queries by hand, one for each half.
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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.resources.proposal import Document
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Month, zone
from meterlake.model.values.sql import quote
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.usage.meter_rollup import aggregate_meters
from meterlake.settings import Settings
from meterlake.stages.usage.aggregate import by_meter, query, table, whole
from meterlake.stages.usage.aggregate import rollups as folds
from meterlake.stores import Organization, open_stores
from meterlake.stores.lake import quantities
from meterlake.stores.lake.tables import columns_at
from tests.benchmarks.filled import fill

ACCOUNTS = 1000
NUMBERS = [f"n{n}" for n in range(16)]
TEXTS = ["region", "host"]
# Of a meter with segments, what is not cut and what is.
UNCUT, SEGMENTED = NUMBERS[:4], NUMBERS[4:8]
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


def filled(organization: Organization, rows: int) -> list[str]:
    """Configure the home, and put measurements into its lake."""
    apply(organization.state, organization.id, [Document("b.yaml", documents())], "benchmark")
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
    return list(map(str, fill(organization, select, rows)))


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
                [used] = aggregate_meters(
                    lake,
                    configuration,
                    snapshot,
                    lambda _: [whole(period)],
                    chosen=lambda each, among=among: each.entity.code in among,
                ).values()
                counted = sum(each.measurements for each in used)
                assert sum(len(each.quantities) for each in used) == len(used) * len(codes)
            return counted

        yield run


def cut(configuration: Configuration) -> Configuration:
    """The same with the aggregations of some numbers cut into segments."""
    segments = tuple({"region": f"region-{n}"} for n in range(30))
    more = {"segmented_fields": ("region",), "segments": segments}
    made = [
        replace(each, entity=each.entity.model_copy(update=more))
        if each.entity.target_field in SEGMENTED
        else each
        for each in configuration.all(Aggregation)
    ]
    return Configuration([*configuration.all(Meter), *made])


@contextmanager
def segmented(settings: Settings) -> Iterator[Case]:
    """Our query of aggregations with and without segments; its rows are read, not made into quantities."""
    with open_stores(settings) as stores:
        org = stores.state.organization()
        configuration, lake = cut(stores.state.configuration(org.id)), stores.lake(org.id)
        fields = {*UNCUT, *SEGMENTED}
        [(meter, aggregations)] = by_meter(
            configuration, lambda each: each.entity.target_field in fields
        )
        scope, source = whole(Month(2026, 9).period(zone("UTC"))), lake.snapshot()
        with lake.reader() as connection:

            def run() -> int:
                name = meter_table(meter.id)
                found = columns_at(connection, name, source)
                among = folds(meter.entity, aggregations, found)
                statement = query(table(meter.id, source), among, scope)
                rows = quantities.rows(connection, *statement)
                assert rows is not None
                return sum(row[3] for row in rows if row[5] is None)

            yield run


def halves() -> str:
    """The same in bare DuckDB: a query for each kind of groups."""
    where = "FROM read_parquet([{files}]) WHERE ts >= $start AND ts < $end"
    plain, parted = _values(UNCUT), _values(SEGMENTED)
    none = ", ".join(["NULL"] * len(plain))
    return (
        f"SELECT account_id, count(*), NULL, {', '.join(plain)}, {none} {where} GROUP BY 1 UNION ALL"
        f' SELECT account_id, 0, "where.region", {none}, {", ".join(parted)} {where} GROUP BY 1, 3'
        " ORDER BY 1, 3"
    )


@contextmanager
def by_duckdb(settings: Settings, sql: str, files: list[str]) -> Iterator[Case]:
    config = {"memory_limit": settings.duckdb_memory, "threads": settings.threads}
    with duckdb.connect(config=config) as connection:
        text = sql.format(files=", ".join(quote(file) for file in files))

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


def _values(codes: Sequence[str]) -> list[str]:
    values = []
    for code in codes:
        column = f'"measure.{code}"'
        values += [f"{name}({column})" for name in ("sum", "min", "max", "count")]
        values.append(f"max_by({column}, {SORT_KEY})")
        values.append(f"{{{{'sum': sum({column}), 'count': count({column})}}}}")
    return values


def hundred() -> str:
    """The hundred aggregations in bare DuckDB."""
    values = _values(NUMBERS)
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
    "half segmented": lambda settings, _: segmented(settings),
    "half, by hand": lambda settings, files: by_duckdb(settings, halves(), files),
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


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """A folder for the data; it goes away afterwards unless one was named."""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
    else:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def data(folder: Path, rows: int) -> Path:
    """The list of the files of so many rows; what is there already is used again."""
    listed = folder / f"files-{rows}.json"
    home = folder / "home"
    if not listed.exists():
        assert not home.exists(), f"{folder} has other data, or half of it: remove it"
        # In a process of its own: a child's peak memory begins with its parent's.
        started = [sys.executable, __file__, "--rows", str(rows), "--home", str(home)]
        subprocess.run([*started, "--files", str(listed)], check=True)
    return listed


def compare(home: Path, listed: Path, asked: argparse.Namespace) -> None:
    rows, repeat = asked.rows, asked.repeat
    cases = [each for each in CASES if each in (asked.only or CASES)]
    cases = [each for each in cases if each != "ClickHouse" or importlib.util.find_spec("chdb")]
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
    beside = "bare DuckDB" if "bare DuckDB" in cases else cases[0]
    print(f"{rows:,} measurements, {ACCOUNTS} accounts, median of {repeat}")
    for name in cases:
        peak = max(each["mb"] for each in found[name])
        ratios = [each[name] / each[beside] for each in (times, busy)]
        print(
            f"{name:<16} {times[name]:8.2f} s {busy[name]:8.2f} s of CPU {peak:6.0f} MB"
            f" {ratios[0]:7.2f} x {beside} {ratios[1]:7.2f} x its CPU"
            f" (opening: {opening[name]:.2f} s of CPU)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="keep the data in this folder, and use it again")
    parser.add_argument("--prepare", action="store_true", help="make the data and measure nothing")
    parser.add_argument("--only", nargs="+", choices=CASES, help="these cases only")
    # What the benchmark starts its own processes with.
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.case:
        measure(asked.case, asked.home, json.loads(asked.files.read_text()))
        return
    if asked.home:
        initialize(Settings(home=asked.home), "Benchmark")
        with open_stores(Settings(home=asked.home)) as stores:
            files = filled(stores.find_organization(), asked.rows)
        asked.files.write_text(json.dumps(files))
        return
    with kept(asked.keep) as folder:
        listed = data(folder, asked.rows)
        if not asked.prepare:
            compare(folder / "home", listed, asked)


if __name__ == "__main__":
    main()
