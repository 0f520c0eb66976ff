"""The month of an organization: CPU seconds of `aggregate`, then of `bill`, beside another version.

    PYTHONPATH=src:. python tests/benchmarks/month.py --home FOLDER            # made if it is not there
    PYTHONPATH=src:. python tests/benchmarks/month.py --home FOLDER --before CHECKOUT

The home has 10 M measurements and 50,000 accounts, all of them on a plan of the sample configuration
whose prices change in the month: so bills need parts of the month, too. CHECKOUT is a folder with
the files of another version (`git archive VERSION | tar x -C CHECKOUT`). Each round takes a copy of
the home, whose Parquet files are links; versions run at the same time, so that what else the
machine does slows all of them alike, and the least of the rounds is shown.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MONTH = (2026, 10)
HERE = Path(__file__).parents[2]


def make_home(home: Path, rows: int, accounts: int) -> None:
    """A home whose accounts are all on a plan, with a month of measurements."""
    import main_job

    main_job.ACCOUNTS = accounts
    main_job.make_home(home)
    main_job.subscribe_all(home, accounts)
    with tempfile.TemporaryDirectory() as folder:
        main_job.ours_ingest(home, main_job.generated(Path(folder), "rows.csv", rows, 1))


def work(checkout: Path, home: Path) -> None:
    """Aggregate and bill, and print what each costs; in a process of its own."""
    # Not by PYTHONPATH: an installation for development may come before it.
    sys.path[:0] = [str(checkout / "src"), str(checkout)]
    import meterlake

    assert Path(meterlake.__file__).is_relative_to(checkout), meterlake.__file__
    from meterlake.model.values.period import Month
    from meterlake.pipeline.billing.jobs.jobs import bill
    from meterlake.pipeline.usage.aggregate import aggregate
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    seconds = {}
    with open_stores(Settings(home=home)) as stores:
        organization = stores.find_organization()
        for verb in (aggregate, bill):
            start = time.process_time()
            verb(organization, Month(*MONTH))
            seconds[verb.__name__] = time.process_time() - start
    print(json.dumps(seconds))


def copied(home: Path, copy: Path) -> Path:
    """A copy of a home; Parquet files never change, so they are linked."""

    def copy_file(source: str, target: str) -> None:
        (os.link if source.endswith(".parquet") else shutil.copy2)(source, target)

    shutil.copytree(home, copy, copy_function=copy_file)
    return copy


def begin(checkout: Path, home: Path) -> subprocess.Popen[str]:
    """Start the work of one version."""
    command = [sys.executable, __file__, "--home", str(home), "--work", str(checkout)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def compare(home: Path, checkouts: dict[str, Path], rounds: int) -> None:
    """Print a line for each version."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(dir=home.parent) as folder:
            started = {
                name: begin(checkout, copied(home, Path(folder, name)))
                for name, checkout in checkouts.items()
            }
            for name, process in started.items():
                found[name].append(json.loads(process.communicate()[0].splitlines()[-1]))
    print("| version | `aggregate` | `bill` | both |\n|---|---|---|---|")
    for name, runs in found.items():
        least = {verb: min(run[verb] for run in runs) for verb in runs[0]}
        cells = [*least.values(), sum(least.values())]
        print(f"| {name} | {' | '.join(f'{each:.1f} s' for each in cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--before", type=Path, help="the files of another version")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--accounts", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.home)
        return
    if not given.home.exists():
        make_home(given.home.absolute(), given.rows, given.accounts)
    before = {"before": given.before.absolute()} if given.before else {}
    compare(given.home.absolute(), {**before, "now": HERE}, given.rounds)


if __name__ == "__main__":
    main()
