"""A soak: load on a whole installation while everything that can fail does.

    PYTHONPATH=src python -m tests.soak --minutes 60 --seed 1
    PYTHONPATH=src python -m tests.soak --minutes 10 --seed 1 --report soak.json

Four organizations; two machines, each with an API server and a worker; PostgreSQL; an S3 server.
First the capacity is measured without faults, then half of it is sent, and faults come by a
schedule that the seed decides. At the end the customers' own books are compared with everything.
The exit code is 1 if anything is wrong. `--keep FOLDER` keeps logs and files.
"""

import argparse
import math
import sys
import tempfile
from pathlib import Path

from tests.soak.report import as_text, write
from tests.soak.run import DRAIN_S, Plan, soak
from tests.soak.servers import missing


def main() -> int:
    """Run a soak, as the arguments say."""
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=500, help="rows of a batch")
    parser.add_argument("--machines", type=int, choices=(2, 3), default=2)
    parser.add_argument("--capacity-seconds", type=float, default=30)
    parser.add_argument("--report", type=Path, help="a file for the report as JSON")
    parser.add_argument("--keep", type=Path, help="an empty folder that stays")
    given = parser.parse_args()
    for name in ("minutes", "rows", "capacity_seconds"):
        if not 0 < getattr(given, name) < math.inf:
            parser.error(f"--{name.replace('_', '-')}: more than 0")
    if reason := missing():
        parser.error(reason)
    plan = Plan(
        seconds=given.minutes * 60,
        seed=given.seed,
        rows=given.rows,
        machines=given.machines,
        capacity_s=given.capacity_seconds,
        drain_s=max(DRAIN_S, given.minutes * 60 / 2),
    )
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        found = soak(given.keep or Path(folder), plan)
    if given.report:
        write(found, given.report)
    sys.stdout.write(as_text(found))
    return int(bool(found["findings"]))


if __name__ == "__main__":
    sys.exit(main())
