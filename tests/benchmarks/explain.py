"""What `bill explain` of one line takes until its first measurements, beside the billing run.

    PYTHONPATH=src:. python tests/benchmarks/explain.py                       # 10 million of one line
    PYTHONPATH=src:. python tests/benchmarks/explain.py --rows 1000000 --sums 10
    PYTHONPATH=src:. python tests/benchmarks/explain.py --keep FOLDER

One account has all measurements, and a bill with a line for each of `--sums` priced sums of them.
Each measurement is a process of its own: the seconds of the clock, and CPU seconds of all its threads.
`explain` begins with the open home and lake; `command` is the whole `meterlake bill explain BILL 1`, until its
last row. What `--keep` names is made once.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from sqlalchemy import text

from meterlake.model.resources.proposal import Document
from meterlake.pipeline.billing.explanation.explain import ExplanationRequest, open_explanation
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.benchmarks.bills import MEASUREMENTS, MONTH, Watch, catalog, opened
from tests.benchmarks.filled import fill

REPEAT: Final = 3
_COMMAND: Final = "import sys; from meterlake.cli import main; sys.exit(main())"


def make_home(home: Path, rows: int, sums: int) -> None:
    """A home of one account with so many measurements, of which so many sums have a price."""
    made = initialize(Settings(home=home), "Benchmark")
    document = catalog()
    document["pricings"] = document["pricings"][:sums]
    with open_stores(Settings(home=home)) as stores:
        organization = stores.organization(made.org_id)
        apply(stores.state, made.org_id, [Document("b.yaml", document)], "benchmark")
        fill(organization, MEASUREMENTS, rows)
        assert bill(organization, MONTH).failures == []


def bill_again(home: Path) -> dict[str, Any]:
    """The billing run of the month, once more."""
    with opened(home) as (stores, org_id):
        watch = Watch()
        assert bill(stores.organization(org_id), MONTH).failures == []
        return watch.read()


def explain(home: Path) -> dict[str, Any]:
    """The first line, with its first measurements."""
    with opened(home) as (stores, org_id):
        organization = stores.organization(org_id)
        request = ExplanationRequest(bill_id(home), "1")
        # What opening the lake costs is paid once.
        with organization.lake.reader() as connection:
            connection.execute("SELECT 1 FROM lake.source LIMIT 1")
        watch = Watch()
        with open_explanation(organization, request) as found:
            shown = [each for each in found.explanation.root.walk() if each.measurements]
            took = watch.read()
        assert len(shown[0].measurements) == 20
    return took


def command(home: Path) -> dict[str, Any]:
    """The command, from its start to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    arguments = ["-c", _COMMAND, "bill", "explain", bill_id(home), "1", "--home", str(home)]
    shown = subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert b"Measurements" in shown.stdout
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu": cpu}


def bill_id(home: Path) -> str:
    """The bill of the home."""
    with opened(home) as (stores, _), stores.state.writing_home() as connection:
        return str(connection.execute(text("SELECT id FROM bill")).scalar_one())


MEASURED: Final[dict[str, Callable[[Path], dict[str, Any]]]] = {
    "bill": bill_again,
    "explain": explain,
    "command": command,
}


def measure(name: str, home: Path) -> dict[str, Any]:
    """The best of some processes that measure one thing."""
    found = []
    for _ in range(REPEAT):
        arguments = [sys.executable, __file__, "--one", name, "--keep", str(home)]
        answer = subprocess.run(arguments, check=True, capture_output=True, text=True)
        found.append(json.loads(answer.stdout.splitlines()[-1]))
    return {key: min(each[key] for each in found) for key in ("seconds", "cpu")}


def run(home: Path, rows: int, sums: int) -> None:
    """Measure all of it, and print it."""
    if not (home / "state.sqlite").exists():
        make_home(home, rows, sums)
    print(f"{rows:,} measurements, {sums} priced sums; the least of {REPEAT}")
    for name in MEASURED:
        took = measure(name, home)
        print(f"  {name:<8} {took['seconds']:6.2f} s  {took['cpu']:6.2f} CPU s")


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--sums", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--one", choices=sorted(MEASURED))
    given = parser.parse_args()
    if given.one:
        print(json.dumps(MEASURED[given.one](given.keep)))
    elif given.keep:
        run(given.keep.absolute(), given.rows, given.sums)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder, "home"), given.rows, given.sums)


if __name__ == "__main__":
    main()
