"""What publishing again costs, beside a bare `CREATE TABLE AS` of the month that has changed.

    PYTHONPATH=. python tests/benchmarks/publish.py [--rows 6000000] [--rounds 3]

A home with one meter and twelve months is published whole; then one month changes by one row, and
it is published again. Beside that: the bare statement on the same lake, into a file of its own,
with a checkpoint. The median of the rounds counts.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.values.sql import identifier, quote
from meterlake.pipeline.publish.run import publish
from meterlake.stores import open_stores
from tests.doubles.homes import Home, furnish, make_home

FIELDS = (
    Field(Category.MEASURE, "bytes"),
    Field(Category.COST, "egress"),
    Field(Category.WHAT, "region"),
    Field(Category.WHO, "person"),
)
MONTH = "ts >= '2025-10-01' AND ts < '2025-11-01'"
ROWS = """
    SELECT 'u-{month}-' || i AS uid, 'account-' || (hash(i) % 1000) AS account_id,
        make_timestamp(2025, {month}, 1, 0, 0, 0)
            + to_microseconds((i * 2400000000000 // {rows})::BIGINT) AS ts,
        NULL::TIMESTAMP AS ets, TIMESTAMP '2026-01-01' AS received_at,
        'source-{month}' AS source, i AS row, 0::SMALLINT AS part,
        ((hash(i + 7) % 1000000) / 1000)::DECIMAL(38,12) AS "measure.bytes",
        (hash(i + 9) % 1000)::DECIMAL(38,12) AS "cost.egress",
        'region-' || (i % 7) AS "what.region", 'person-' || (hash(i) % 5000) AS "who.person"
    FROM range({rows}) t(i)"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=6_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made, clock = make_home(Path(folder) / "home")
        with open_stores(made, clock) as stores:
            measure(furnish(stores, clock), arguments.rows // 12, arguments.rounds)


def measure(home: Home, rows: int, rounds: int) -> None:
    meter = home.meter("usage", FIELDS)
    fill(home, meter, rows)
    whole = timed(lambda: publish(home.organization))
    again, bare, nothing = [], [], []
    for number in range(rounds):
        row = (f"n-{number}", "acme", "2025-10-20 00:00:00", None, 1, 2, "eu", "p")
        home.store(meter, [row])
        again.append(timed(lambda: publish(home.organization)))
        nothing.append(timed(lambda: publish(home.organization)))
        target = home.stores.home / f"bare-{number}.duckdb"
        bare.append(create(home, meter.table, target))
        target.unlink()
    file = home.stores.home / "published" / "small-sohne" / "warehouse.duckdb"
    print(f"{rows * 12:,} rows in 12 months, the file has {file.stat().st_size / 1e6:,.0f} MB")
    print(f"{'published whole':<40}{whole:>8.2f} s")
    middle = statistics.median
    for name, times in (
        ("published again, one month changed", again),
        ("published again, nothing changed", nothing),
        ("bare CREATE TABLE AS of that month", bare),
    ):
        print(f"{name:<40}{middle(times):>8.2f} s")
    print(f"{'again / bare':<40}{middle(again) / middle(bare):>8.2f}")


def fill(home: Home, meter, rows: int) -> None:
    with home.lake.lock(), home.lake.transaction() as connection:
        home.lake.ensure_meter_table(connection, meter)
        for month in range(1, 13):
            staged = home.lake.new_staging(f"month-{month}") / "rows.parquet"
            query = ROWS.format(month=month, rows=rows)
            connection.execute(
                f"COPY ({query}) TO {quote(staged)}"
                " (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )
            name = f"year=2025/month={month}/{month}.parquet"
            home.lake.register(connection, meter.table, staged, name)


def create(home: Home, table: str, target: Path) -> float:
    """The bare statement: what it takes to have the month in a file at all."""
    lake = home.lake
    started = time.perf_counter()
    with closing(lake.connect()) as connection:
        connection.execute(f"ATTACH {quote(target)} AS bare")
        connection.execute(
            f"CREATE TABLE bare.month AS FROM lake.{identifier(table)} WHERE {MONTH}"
        )
        connection.execute("CHECKPOINT bare")
    return time.perf_counter() - started


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
