"""What commands that only look cost, on a home of 10 M measurements of 50,000 accounts: CPU seconds.

    PYTHONPATH=src:. python tests/benchmarks/commands.py                # makes the home, 5 minutes
    PYTHONPATH=src:. python tests/benchmarks/commands.py --home FOLDER  # one that is there

Every run is a process of its own; user and system time are added, and the least of the rounds is
told beside their median: what else runs on a machine makes every one of them dearer. Modules are
compiled before
the first round, as installing does.
"""

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import main_job

import meterlake

PROGRAM = "import sys; sys.argv[0] = 'meterlake'; from meterlake.cli import main; main()"
MONTH = "2026-10"
COMMANDS = {
    "`meterlake --help`": ["--help"],
    "`status`": ["status"],
    '`sql "SELECT 1"`': ["sql", "SELECT 1"],
    "`late`": ["late"],
    "`rejected list`": ["rejected", "list"],
    "`explain quantity`": ["explain", "quantity", "account-00001", "input_tokens", MONTH],
}


def cpu(work: Callable[[], object]) -> float:
    """The processor's seconds of a piece of work and of the processes that it waited for."""
    start = sum(os.times()[:4])
    work()
    return sum(os.times()[:4]) - start


def make_home(folder: Path, rows: int) -> Path:
    """A home whose month is aggregated."""
    home = folder / "home"
    main_job.make_home(home)
    main_job.ours_ingest(home, main_job.generated(folder, "rows.csv", rows, 1))
    call(["aggregate", MONTH], home)
    return home


def call(arguments: list[str], home: Path) -> None:
    at = [] if arguments == ["--help"] else ["--home", str(home)]
    subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments, *at], check=True, capture_output=True
    )


def opened(home: Path) -> float:
    """CPU seconds from nothing to a lake that can be asked: extensions, catalog, its tables."""
    with main_job.stores_at(home) as stores:
        lake = stores.lake(stores.state.organization().id)
        start = time.process_time()
        lake.open_to_read()
        return time.process_time() - start


def measure(home: Path, rounds: int) -> None:
    """Print the table; commands take turns."""
    found: dict[str, list[float]] = {name: [] for name in (*COMMANDS, "opening a lake")}
    for _ in range(rounds):
        for name, arguments in COMMANDS.items():
            found[name].append(cpu(lambda given=arguments: call(given, home)))
        found["opening a lake"].append(opened(home))
    print("| what | CPU, least | CPU, median |\n|---|---|---|")
    for name, seconds in found.items():
        print(f"| {name} | {min(seconds):.2f} s | {statistics.median(seconds):.2f} s |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--home", type=Path)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    compileall.compile_dir(Path(meterlake.__file__).parent, quiet=1)
    if given.home:
        measure(given.home, given.rounds)
        return
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
        measure(make_home(Path(folder), given.rows), given.rounds)


if __name__ == "__main__":
    main()
