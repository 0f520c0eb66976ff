"""Runs every suite of tests and prints one table of what became of them: `.ci/all`.

    .ci/all                    all suites
    .ci/all quick default      some of them

Benchmarks measure and are no suite. The slow tests run in parts, in processes of their own, as
`.ci/slow` does; all other suites are one run of pytest.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.laws import CI
from tests.slow_suite import Outcomes, read_outcomes

ROOT: Final = Path(__file__).parents[1]
_LAWS: Final = ("tests/properties/test_ingest.py", "tests/properties/test_ingest_machine.py")
# Each takes the option that says where its outcomes go.
SUITES: Final[dict[str, tuple[str, ...]]] = {
    "quick": ("pytest", "-m", "quick"),
    "default": ("pytest",),
    "long": ("pytest", "-m", "long and not slow and not benchmark"),
    "both databases": (
        *("pytest", "--lakes", "postgresql", "-m"),
        "on_both and not slow and not benchmark",
    ),
    "laws": ("pytest", f"--hypothesis-profile={CI}", *_LAWS),
    "matrix postgresql": (".ci/matrix", "postgresql"),
    "matrix s3": (".ci/matrix", "s3"),
    "matrix gcs": (".ci/matrix", "gcs"),
    "slow": (".ci/slow",),
}


@dataclass(slots=True)
class Result:
    """What became of a suite."""

    suite: str
    found: Outcomes
    failed: list[str]
    seconds: float

    def row(self) -> tuple[str, ...]:
        """The cells of its line in the table."""
        counts = Counter(self.found.of.values())
        cases = (len(self.found.of), counts["passed"], counts["skipped"], len(self.failed))
        return (self.suite, *map(str, cases), f"{self.seconds / 60:.1f}")


def run_suite(suite: str, folder: Path) -> Result:
    """Run one suite; a run that fails as a whole is a failure of its own."""
    path = folder / f"{suite.replace(' ', '-')}.jsonl"
    path.touch()
    began = time.monotonic()
    ended = subprocess.run([*SUITES[suite], f"--outcomes={path}"], cwd=ROOT, check=False)
    found = read_outcomes(path, stopped=False)
    failed = found.failed() + found.wrong
    if ended.returncode != 0 and not failed:
        failed.append(f"the run as a whole, with exit status {ended.returncode}")
    return Result(suite, found, failed, time.monotonic() - began)


def table(results: Sequence[Result]) -> str:
    """One line for each suite, then why tests were skipped, and which failed."""
    heads = ("suite", "cases", "passed", "skipped", "failed", "minutes")
    rows = [heads, *(each.row() for each in results)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    for result in results:
        why = Counter(
            result.found.reasons[test]
            for test, what in result.found.of.items()
            if what == "skipped"
        )
        lines += [f"skipped in {result.suite}: {n} x {reason}" for reason, n in why.items()]
        lines += [f"failed in {result.suite}: {test}" for test in result.failed]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; 0 if nothing failed."""
    parser = argparse.ArgumentParser(prog=".ci/all", description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    chosen = parser.parse_args(arguments).suites or list(SUITES)
    if unknown := [each for each in chosen if each not in SUITES]:
        parser.error(f"{unknown[0]!r} is not one of: {', '.join(SUITES)}")
    with tempfile.TemporaryDirectory() as folder:
        results = [run_suite(each, Path(folder)) for each in chosen]
    sys.stdout.write(f"\n{table(results)}\n")
    return int(any(each.failed for each in results))


if __name__ == "__main__":
    sys.exit(main())
