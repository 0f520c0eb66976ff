"""What derived fields cost: one CSV file into a meter without them, and into one that has three.

    python tests/benchmarks/derived.py                  # 1 M rows, about a minute on 2 cores
    python tests/benchmarks/derived.py --rows 100000    # a quick look

Both files hold the same numbers and are ingested in turns, each into an empty home of its own; the
median of `--repeat` rounds is printed, and their ratio. Also three fields that only the evaluator can
calculate, on `--slow-rows` rows.
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

FIELDS = [
    {"category": "MEASURE", "code": "input", "name": "Input"},
    {"category": "MEASURE", "code": "output", "name": "Output"},
    {"category": "WHERE", "code": "region", "name": "Region"},
]
FAST = ("input * 0.000003 + output * 0.000015", "input + output", "(output - input) / 1000")
QUOTIENTS = ("input / output", "input / 3", "output == 0 ? 0 : (input + 1) / output")
SLOW = ("input % output", "(input + 1) / (output + 7) * 3", "input % 17")
REGIONS = ("eu-west-1", "us-east-1", "ap-south-1")


def write(path: Path, rows: int) -> None:
    """A file of measurements."""
    with path.open("w") as file:
        file.write("meter,account,uid,ts,measure.input,measure.output,where.region\n")
        for n in range(rows):
            day, second = 1 + n % 28, n % 60
            file.write(
                f"llm,account-{n % 5000:05},u-{n},2026-09-{day:02}T10:00:{second:02}Z,"
                f"{n * 7919 % 100_003},{1 + n * 104_729 % 9973}.{n % 100:02},{REGIONS[n % 3]}\n"
            )


def ingest(path: Path, calculations: tuple[str, ...]) -> float:
    """The seconds that it takes to ingest a file into an empty home."""
    from meterlake.model.measurements.receipt import Delivery
    from meterlake.model.resources.proposal import Document
    from meterlake.pipeline.config.apply_configuration import apply
    from meterlake.pipeline.home.setup import initialize
    from meterlake.pipeline.ingest.run import ingest_file
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    derived = [
        {"category": "COST", "code": f"d{n}", "name": "D", "calculation": text}
        for n, text in enumerate(calculations)
    ]
    meter = {"code": "llm", "name": "LLM", "dataFields": FIELDS, "derivedFields": derived}
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder) / "home")
        made = initialize(settings, "Benchmark")
        with open_stores(settings) as stores:
            apply(stores.state, made.org_id, [Document("m.yaml", {"meters": [meter]})], "benchmark")
            delivery = Delivery("benchmark", "usage.csv", datetime(2026, 10, 1, tzinfo=UTC))
            begin = time.perf_counter()
            receipt = ingest_file(stores.organization(made.org_id), path, delivery)
            assert receipt.accepted == receipt.received, receipt
            return time.perf_counter() - begin


def compared(path: Path, calculations: tuple[str, ...], repeat: int) -> tuple[float, float]:
    """The medians without and with derived fields."""
    rounds = [(ingest(path, ()), ingest(path, calculations)) for _ in range(repeat)]
    plain, derived = (statistics.median(each) for each in zip(*rounds, strict=True))
    return plain, derived


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--slow-rows", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    runs = (
        ("as columns", asked.rows, FAST),
        ("that divide", asked.rows, QUOTIENTS),
        ("by the evaluator", asked.slow_rows, SLOW),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, rows, calculations in runs:
            path = Path(folder) / "usage.csv"
            write(path, rows)
            plain, derived = compared(path, calculations, asked.repeat)
            print(
                f"{rows:,} rows, three fields {name}: {plain:.2f} s without, {derived:.2f} s with,"
                f" x {derived / plain:.2f}"
            )


if __name__ == "__main__":
    main()
