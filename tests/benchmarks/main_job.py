"""The main job's stages beside bare DuckDB and bare Polars, in the same run, on the same files.

    python tests/benchmarks/main_job.py                 # 10 M rows, about 10 minutes on 2 cores
    python tests/benchmarks/main_job.py --rows 1000000  # a quick look

Every measurement is a process of its own, which reports its time, the CPU time of it and its peak
memory (RSS); ours and bare ones take turns, and the median of `--repeat` rounds is printed. Of CPU
time it is the least: that counts least of what else the machine does. Bare DuckDB and bare Polars read
the file typed and write Parquet (zstd 1); they validate nothing, de-duplicate nothing, sync nothing.
"""

import argparse
import json
import os
import platform
import resource
import shutil
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

ACCOUNTS = 50_000
METER = "llm_tokens"
TEXTS = ("meter", "account", "uid", "who.user", "what.model", "where.region")
NUMBERS = ("measure.input_tokens", "measure.output_tokens", "measure.latency_ms", "cost.inference")
BARE_NUMBER = "DECIMAL(18,6)"


# ---- one measurement, in a process of its own -------------------------------------------------


class Watch:
    """Clock and CPU time since it was made: of all threads of this process."""

    def __init__(self) -> None:
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def read(self) -> dict[str, float]:
        return {
            "seconds": time.perf_counter() - self.start,
            "cpu": time.process_time() - self.cpu,
        }


@contextmanager
def stores_at(home: Path) -> Iterator[Any]:
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    with open_stores(Settings(home=home)) as stores:
        yield stores


def make_home(home: Path) -> dict[str, str]:
    """A home with the sample configuration and every account that the files name; who may call."""
    import sample_data
    from meterlake.model.values.ids import derived_id
    from meterlake.pipeline.config.apply_configuration import apply, read_documents
    from meterlake.pipeline.home.setup import initialize
    from meterlake.settings import Settings
    from meterlake.stores.state.core.auto_accounts import create_auto_accounts

    made = initialize(Settings(home=home), "Benchmark")
    configuration = Path(sample_data.__file__).parent / "configuration"
    with stores_at(home) as stores:
        apply(stores.state, made.org_id, read_documents([configuration]), "benchmark")
        codes = [f"account-{number:05}" for number in range(1, ACCOUNTS + 1)]
        ids = {code: derived_id(made.org_id, "account", code) for code in codes}
        assert create_auto_accounts(stores.state, made.org_id, ids) == ACCOUNTS
    names = ("org_id", "access_key_id", "api_secret")
    return {name: str(getattr(made, name)) for name in names}


def subscribe_all(home: Path, accounts: int) -> None:
    """Put every account on a plan of the sample configuration."""
    from meterlake.model.resources.proposal import Document
    from meterlake.pipeline.config.apply_configuration import apply

    plans = [
        {
            "code": f"plan-{number:05}",
            "accountId": f"account-{number:05}",
            "planId": "llm-pro",
            "startDate": "2025-12-31T23:00:00Z",
        }
        for number in range(1, accounts + 1)
    ]
    with stores_at(home) as stores:
        org = stores.state.organization()
        apply(stores.state, org.id, [Document("plans", {"accountPlans": plans})], "benchmark")


def ours_ingest(home: Path, path: Path) -> dict[str, Any]:
    """From the drop to committed, validated, de-duplicated and synced."""
    from meterlake.pipeline.ingest.drop import ingest_inbox
    from meterlake.pipeline.ingest.drop_folder import drop_folder

    with stores_at(home) as stores:
        org = stores.state.organization()
        folder = drop_folder(stores, org.code)
        folder.create()
        dropped = folder.inbox / path.name
        try:
            dropped.hardlink_to(path)
        except OSError:
            shutil.copy(path, dropped)
        watch = Watch()
        [receipt] = ingest_inbox(stores.organization(org.id), folder, settle_seconds=0)
        took = watch.read()
    assert receipt.status == "done", receipt
    return {**took, "accepted": receipt.accepted, "repeats": receipt.repeats}


def ours_quantities(home: Path) -> dict[str, Any]:
    from meterlake.model.configuration.organization import OrganizationConfig
    from meterlake.model.values.period import Month, zone
    from meterlake.pipeline.usage.meter_rollup import aggregate_meters
    from meterlake.stages.usage.aggregate import whole

    with stores_at(home) as stores:
        org = stores.state.organization()
        configuration = stores.state.configuration(org.id)
        period = Month(2026, 10).period(
            zone(configuration.single(OrganizationConfig).entity.timezone)
        )
        lake = stores.lake(org.id)
        snapshot = lake.snapshot()
        start = time.perf_counter()
        used = aggregate_meters(lake, configuration, snapshot, lambda _: [whole(period)])
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "groups": sum(len(each) for each in used.values())}


def ours_bill(home: Path) -> dict[str, Any]:
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.jobs.jobs import bill

    with stores_at(home) as stores:
        org = stores.state.organization()
        start = time.perf_counter()
        bill(stores.organization(org.id), Month(2026, 10))
        return {"seconds": time.perf_counter() - start}


def ours_export(home: Path, to: Path) -> dict[str, Any]:
    from meterlake.model.work.export_request import ExportRequest
    from meterlake.pipeline.export.run import export

    with stores_at(home) as stores:
        org = stores.state.organization()
        start = time.perf_counter()
        export(
            stores.organization(org.id),
            ExportRequest.from_wire(
                {
                    "source": "usage",
                    "format": "csv",
                    "types": ["measurements"],
                    "to": str(to),
                    "month": None,
                }
            ),
        )
        return {"seconds": time.perf_counter() - start}


def ours_commits(home: Path, folder: Path) -> dict[str, Any]:
    """The median of 1,000-row sources, each from its path to its receipt."""
    from meterlake.model.measurements.receipt import Delivery
    from meterlake.pipeline.ingest.run import ingest_file

    times = []
    with stores_at(home) as stores:
        org = stores.state.organization()
        for number, path in enumerate(sorted(folder.glob("commit-*.csv"))):
            delivery = Delivery(f"{home.name}-{number}", path.name, datetime.now(UTC))
            start = time.perf_counter()
            receipt = ingest_file(stores.organization(org.id), path, delivery)
            times.append(time.perf_counter() - start)
            assert receipt.accepted == 1000, receipt
    return {"seconds": statistics.median(times[1:]), "first": times[0]}


def duckdb_connection() -> Any:
    import duckdb

    return duckdb.connect(config={"threads": 2, "preserve_insertion_order": False})


def bare_columns() -> str:
    kinds = (
        dict.fromkeys(TEXTS, "VARCHAR") | {"ts": "TIMESTAMP"} | dict.fromkeys(NUMBERS, BARE_NUMBER)
    )
    order = ("meter", "account", "uid", "ts", "who.user", "what.model", "where.region", *NUMBERS)
    return ", ".join(f"'{name}': '{kinds[name]}'" for name in order)


def duckdb_csv(path: Path, out: Path) -> dict[str, Any]:
    query = f"SELECT * FROM read_csv('{path}', header=true, columns={{{bare_columns()}}})"
    return duckdb_copy(query, out)


def duckdb_ndjson(path: Path, out: Path) -> dict[str, Any]:
    kinds = {"who": "user", "what": "model", "where": "region"}
    columns = dict.fromkeys(("meter", "account", "uid"), "VARCHAR") | {"ts": "TIMESTAMP"}
    columns |= {key: f"STRUCT({field} VARCHAR)" for key, field in kinds.items()}
    measures = ", ".join(
        f"{name.partition('.')[2]} DOUBLE" for name in NUMBERS if name.startswith("measure")
    )
    columns |= {"measure": f"STRUCT({measures})", "cost": "STRUCT(inference DOUBLE)"}
    listed = ", ".join(f"\"{name}\": '{kind}'" for name, kind in columns.items())
    return duckdb_copy(
        f"SELECT * FROM read_json('{path}', format='newline_delimited', columns={{{listed}}})", out
    )


def duckdb_copy(query: str, out: Path) -> dict[str, Any]:
    connection = duckdb_connection()
    watch = Watch()
    connection.execute(
        f"COPY ({query}) TO '{out}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
    )
    return watch.read()


def polars_csv(path: Path, out: Path) -> dict[str, Any]:
    import polars as pl

    schema = dict.fromkeys(TEXTS, pl.String) | {"ts": pl.String}
    schema |= dict.fromkeys(NUMBERS, pl.Decimal(18, 6))
    order = ("meter", "account", "uid", "ts", "who.user", "what.model", "where.region", *NUMBERS)
    watch = Watch()
    frame = pl.scan_csv(path, schema={name: schema[name] for name in order})
    typed = frame.with_columns(pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ"))
    typed.sink_parquet(out, compression="zstd", compression_level=1)
    return watch.read()


def polars_ndjson(path: Path, out: Path) -> dict[str, Any]:
    import polars as pl

    watch = Watch()
    pl.scan_ndjson(path).sink_parquet(out, compression="zstd", compression_level=1)
    return watch.read()


def dlt_csv(path: Path, out: Path) -> dict[str, Any]:
    from dlt.sources.filesystem import read_csv_duckdb

    return dlt_merge(path, out, read_csv_duckdb(use_pyarrow=True))


def dlt_ndjson(path: Path, out: Path) -> dict[str, Any]:
    from dlt.sources.filesystem import read_jsonl

    return dlt_merge(path, out, read_jsonl())


def dlt_merge(path: Path, out: Path, reader: Any) -> dict[str, Any]:
    """The rows of a file merged on their uids into a new DuckDB file, in dlt's own way."""
    import dlt
    import duckdb
    from dlt.sources.filesystem import filesystem

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    pipeline = dlt.pipeline(
        "benchmark",
        pipelines_dir=str(out / "pipelines"),
        destination=dlt.destinations.duckdb(str(out / "lake.duckdb")),
        dataset_name="usage",
    )
    files = filesystem(bucket_url=path.parent.as_uri(), file_glob=path.name)
    rows = (files | reader).with_name("measurement")
    rows.apply_hints(write_disposition="merge", primary_key="uid")
    watch = Watch()
    pipeline.run(rows)
    took = watch.read()
    with duckdb.connect(str(out / "lake.duckdb"), read_only=True) as connection:
        [count] = connection.execute("SELECT count(*) FROM usage.measurement").fetchone() or (0,)
    return {**took, "accepted": count}


def lake_files(home: Path) -> tuple[list[str], str, str]:
    """The Parquet files of the meter's table, and October's bounds in UTC."""
    from meterlake.model.catalog.catalog import Meter
    from meterlake.model.configuration.organization import OrganizationConfig
    from meterlake.model.measurements.measurement import meter_table
    from meterlake.model.values.period import Month, zone

    with stores_at(home) as stores:
        org = stores.state.organization()
        configuration = stores.state.configuration(org.id)
        meter = next(each for each in configuration.all(Meter) if each.entity.code == METER)
        period = Month(2026, 10).period(
            zone(configuration.single(OrganizationConfig).entity.timezone)
        )
        folder = stores.lake(org.id).files.folder / "main" / meter_table(meter.id)
        files = sorted(str(path) for path in folder.rglob("*.parquet"))
    return files, f"{period.start:%Y-%m-%d %H:%M:%S}", f"{period.end:%Y-%m-%d %H:%M:%S}"


def meter_folds(home: Path) -> list[tuple[str, str]]:
    from meterlake.model.catalog.catalog import Aggregation, Meter

    with stores_at(home) as stores:
        configuration = stores.state.configuration(stores.state.organization().id)
        meter = next(each for each in configuration.all(Meter) if each.entity.code == METER)
        categories = {each.code: each.category.lower() for each in meter.entity.data_fields}
        return [
            (
                str(each.entity.aggregation),
                f"{categories[each.entity.target_field]}.{each.entity.target_field}",
            )
            for each in configuration.all(Aggregation)
            if each.entity.meter_id == meter.id
        ]


def duckdb_quantities(home: Path) -> dict[str, Any]:
    """The bare query with the same types and tie-breaks."""
    files, start_at, end_at = lake_files(home)
    sql = {
        "SUM": "sum({c})",
        "MIN": "min({c})",
        "MAX": "max({c})",
        "COUNT": "count({c})",
        "UNIQUE": "count(DISTINCT {c})",
        "LATEST": "max_by({c}, (ts, uid))",
        "MEAN": "sum({c}), count({c})",
    }
    folds = ", ".join(sql[kind].format(c=f'"{column}"') for kind, column in meter_folds(home))
    connection = duckdb_connection()
    start = time.perf_counter()
    connection.execute(
        f"SELECT account_id, {folds}, count(*) FROM read_parquet({files}) WHERE ts >= '{start_at}'"
        f" AND ts < '{end_at}' GROUP BY account_id"
    ).fetchall()
    return {"seconds": time.perf_counter() - start}


def polars_quantities(home: Path) -> dict[str, Any]:
    import polars as pl

    files, start_at, end_at = lake_files(home)
    kinds: dict[str, Callable[[pl.Expr], pl.Expr]] = {
        "SUM": lambda c: c.sum(),
        "MIN": lambda c: c.min(),
        "MAX": lambda c: c.max(),
        "COUNT": lambda c: c.count(),
        "UNIQUE": lambda c: c.n_unique(),
        "LATEST": lambda c: c.sort_by("ts", "uid").last(),
        "MEAN": lambda c: c.mean(),
    }
    folds = [
        kinds[kind](pl.col(column)).alias(str(number))
        for number, (kind, column) in enumerate(meter_folds(home))
    ]
    start = time.perf_counter()
    frame = pl.scan_parquet(files, hive_partitioning=False)
    low, high = datetime.fromisoformat(start_at), datetime.fromisoformat(end_at)
    frame = frame.filter(pl.col("ts") >= low, pl.col("ts") < high)
    frame.group_by("account_id").agg(*folds, pl.len().alias("n")).collect(engine="streaming").rows()
    return {"seconds": time.perf_counter() - start}


def duckdb_export(home: Path, out: Path) -> dict[str, Any]:
    files, *_ = lake_files(home)
    connection = duckdb_connection()
    start = time.perf_counter()
    connection.execute(
        f"COPY (SELECT * EXCLUDE (received_at, source, row, part) FROM read_parquet({files},"
        f" hive_partitioning=false) ORDER BY uid) TO '{out}' (FORMAT csv, COMPRESSION gzip)"
    )
    return {"seconds": time.perf_counter() - start}


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    each.__name__: each
    for each in (
        ours_ingest,
        ours_quantities,
        ours_bill,
        ours_export,
        ours_commits,
        duckdb_csv,
        duckdb_ndjson,
        duckdb_quantities,
        duckdb_export,
        dlt_csv,
        dlt_ndjson,
        polars_csv,
        polars_ndjson,
        polars_quantities,
    )
}


# ---- the run ----------------------------------------------------------------------------------


def measure(name: str, *paths: Path, python: str = sys.executable) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [python, __file__, "--measure", name, *map(str, paths)]
    # dlt would call home, and warn of every batch of rows.
    quiet = {"RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "ERROR"}
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env=os.environ | quiet
    )
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class Table:
    """Collects rounds and prints a line per stage."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[dict[str, Any]]] = {}

    def add(self, name: str, result: dict[str, Any]) -> None:
        self.rounds.setdefault(name, []).append(result)

    def seconds(self, name: str) -> float:
        return statistics.median(each["seconds"] for each in self.rounds[name])

    def memory(self, name: str) -> int:
        return max(each["rss_mb"] for each in self.rounds[name])

    def cpu(self, name: str) -> float | None:
        return min((each["cpu"] for each in self.rounds[name] if "cpu" in each), default=None)

    def line(self, title: str, ours: str, bare: str | None = None, reach: str = "") -> None:
        ratio = f"{self.seconds(ours) / self.seconds(bare):.2f}" if bare else ""
        beside = f"{self.seconds(bare):.2f} s" if bare else ""
        print(
            f"| {title} | {self.seconds(ours):.3f} s | {self.memory(ours)} MB | {beside} | {ratio} | {reach} |",
            flush=True,
        )
        ours_cpu, bare_cpu = self.cpu(ours), self.cpu(bare) if bare else None
        if ours_cpu and bare_cpu:
            memory = self.memory(bare) if bare else 0
            print(
                f"| … CPU; memory of the other one: {memory} MB | {ours_cpu:.1f} s | | {bare_cpu:.1f} s"
                f" | {ours_cpu / bare_cpu:.2f} | {reach} |",
                flush=True,
            )


def generated(folder: Path, name: str, rows: int, seed: int) -> Path:
    from meterlake.pipeline.home.generate import Recipe, generate

    path = folder / name
    if not path.exists():
        generate(Recipe(rows=rows, seed=seed, accounts=ACCOUNTS), path)
    return path


def has_dlt(python: str) -> bool:
    found = subprocess.run([python, "-c", "import dlt, pyarrow"], check=False, capture_output=True)
    return found.returncode == 0


def dlt_line(table: Table, kind: str, path: Path, repeat: int, python: str | None) -> None:
    """dlt beside ours, where it is installed."""
    if python is None:
        print(f"| {kind} to lake, beside dlt | | | dlt is not installed | | |", flush=True)
        return
    name = kind.lower()
    for _ in range(repeat):
        out = path.parent / "dlt"
        table.add(f"dlt {name}", measure(f"dlt_{name}", path, out, python=python))
        shutil.rmtree(out)
    table.line(f"{kind} to lake, beside dlt's merge into DuckDB", name, f"dlt {name}")


def run(rows: int, repeat: int, folder: Path, dlt: str | None, *, only_files: bool) -> None:
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    print(f"{rows:,} rows, median of {repeat}; {machine}\n")
    print("| stage | ours | peak memory | beside | ratio | reach |\n|---|---|---|---|---|---|")
    table, template = Table(), folder / "template"
    shutil.rmtree(template, ignore_errors=True)
    make_home(template)
    home = csv_stages(table, rows, repeat, folder, dlt)
    ndjson_stages(table, rows, repeat, folder, dlt)
    if only_files:
        return
    history_stages(table, rows, repeat, home)
    reading_stages(table, repeat, home)
    command_stages(table, home)


def csv_stages(table: Table, rows: int, repeat: int, folder: Path, dlt: str | None) -> Path:
    path, bare = generated(folder, "rows.csv", rows, 1), folder / "bare.parquet"
    for number in range(repeat):
        home = fresh(folder, f"csv-{number}")
        table.add("csv", measure("ours_ingest", home, path))
        table.add("duckdb csv", measure("duckdb_csv", path, bare))
        table.add("polars csv", measure("polars_csv", path, bare))
    table.line("CSV to lake, beside DuckDB CSV to Parquet", "csv", "duckdb csv", "2.2")
    table.line("CSV to lake, beside Polars CSV to Parquet", "csv", "polars csv")
    dlt_line(table, "CSV", path, repeat, dlt)
    return home


def ndjson_stages(table: Table, rows: int, repeat: int, folder: Path, dlt: str | None) -> None:
    path, bare = generated(folder, "rows.ndjson", rows, 2), folder / "bare.parquet"
    for number in range(repeat):
        home = fresh(folder, f"ndjson-{number}")
        table.add("ndjson", measure("ours_ingest", home, path))
        table.add("duckdb ndjson", measure("duckdb_ndjson", path, bare))
        table.add("polars ndjson", measure("polars_ndjson", path, bare))
    table.line("NDJSON to lake, beside DuckDB NDJSON to Parquet", "ndjson", "duckdb ndjson", "2.8")
    table.line("NDJSON to lake, beside Polars NDJSON to Parquet", "ndjson", "polars ndjson")
    dlt_line(table, "NDJSON", path, repeat, dlt)


def history_stages(table: Table, rows: int, repeat: int, home: Path) -> None:
    folder, small = home.parent, home.parent / "small"
    small.mkdir(exist_ok=True)
    for number in range(21):
        generated(small, f"commit-{number:02}.csv", 1000, 1000 + number)
    for number in range(repeat):
        more = generated(folder, f"more-{number}.csv", max(rows // 10, 1000), 10 + number)
        table.add("more", measure("ours_ingest", home, more))
        table.add("empty", measure("ours_ingest", fresh(folder, f"empty-{number}"), more))
    table.line("a tenth against the whole as history, beside an empty lake", "more", "empty")
    table.add("commit", measure("ours_commits", fresh(folder, "commits"), small))
    table.line("a source of 1,000 rows, empty lake (median of 20)", "commit", None, "0.050 s")
    table.add("commit late", measure("ours_commits", home, small))
    table.line("a source of 1,000 rows, history (median of 20)", "commit late", None, "0.150 s")


def reading_stages(table: Table, repeat: int, home: Path) -> None:
    for _ in range(repeat):
        table.add("fold", measure("ours_quantities", home))
        table.add("duckdb fold", measure("duckdb_quantities", home))
        table.add("polars fold", measure("polars_quantities", home))
    table.line("quantities of a month, beside the bare DuckDB query", "fold", "duckdb fold", "1.3")
    table.line("quantities of a month, beside the bare Polars query", "fold", "polars fold")
    table.add("bill", measure("ours_bill", home))
    table.line("bills of the month", "bill")
    table.add("export", measure("ours_export", home, home.parent / "export"))
    table.add("duckdb export", measure("duckdb_export", home, home.parent / "bare.csv.gz"))
    table.line("usage as CSV.gz by uid, beside DuckDB's COPY", "export", "duckdb export")


def command_stages(table: Table, home: Path) -> None:
    for name, arguments in (("help", ["--help"]), ("status", ["status", "--home", str(home)])):
        for _ in range(3):
            table.add(name, command_time(arguments))
    table.line("`meterlake --help`", "help", None, "0.5 s")
    table.line("`meterlake status`", "status", None, "1.5 s")


def fresh(folder: Path, name: str) -> Path:
    """A home of its own for one round; earlier rounds' homes make room."""
    kind = name.partition("-")[0]
    for old in folder.glob(f"{kind}-*"):
        if old.is_dir():
            shutil.rmtree(old)
    home = folder / name
    shutil.copytree(folder / "template", home)
    return home


def command_time(arguments: list[str]) -> dict[str, Any]:
    program = Path(sys.executable).with_name("meterlake")
    start = time.perf_counter()
    subprocess.run([program, *arguments], check=True, capture_output=True)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "rss_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="Where files go; a temporary folder if absent.")
    parser.add_argument("--only-files", action="store_true", help="Only CSV and NDJSON to lake.")
    parser.add_argument("--dlt", default=sys.executable, help="The Python that has dlt.")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        result = MEASURES[given.measure](*given.paths)
        result["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps(result))
        return
    dlt = given.dlt if has_dlt(given.dlt) else None
    if given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        run(given.rows, given.repeat, given.folder.absolute(), dlt, only_files=given.only_files)
        return
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
        run(given.rows, given.repeat, Path(folder), dlt, only_files=given.only_files)


if __name__ == "__main__":
    main()
