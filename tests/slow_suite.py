"""Runs the slow tests in parts, and says what did not run: `.ci/slow`.

    .ci/slow                     all of them
    .ci/slow --tenth             the tenth whose turn it is today, for 15 minutes at most
    .ci/slow --tenth 2026-11-22  the tenth of a day
    .ci/slow --minutes 120       all that can be run in two hours

A part is the chosen tests of one file, or of a few files that have few, in a process of its own with
a limit of time. If the process dies, the rest of the part goes on in another one. A test that failed is tried once more, alone;
only if it fails again it has failed. In ten days in a row each slow test has had its turn.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.killed_steps import read_list

ROOT: Final = Path(__file__).parents[1]
TENTH_MINUTES: Final = 15
PART_MINUTES: Final = 40
# A process takes three seconds before its first test: it is worth that for so many tests.
PART_TESTS: Final = 12
# Of all the time there is, this much is for the first try; the rest is for what failed.
FIRST_TRY: Final = 0.75
_GRACE_S: Final = 20
_FAILED: Final = ("failed", "died")
_TAIL_LINES: Final = 60


@dataclass(slots=True)
class Outcomes:
    """What became of tests, by test: `passed`, `failed`, `skipped`, `died` or `stopped`."""

    of: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def failed(self) -> list[str]:
        """The tests that failed, or whose process died."""
        return [test for test, outcome in self.of.items() if outcome in _FAILED]

    def update(self, other: "Outcomes") -> None:
        """Take over what another process says."""
        self.of |= other.of
        self.seconds |= other.seconds
        self.reasons |= other.reasons
        self.wrong += other.wrong


def turn(test: str) -> int:
    """On which of ten days it is a test's turn."""
    return int.from_bytes(sha256(test.encode()).digest()[:4]) % 10


def of_day(tests: Iterable[str], day: date) -> list[str]:
    """The tests whose turn it is on a day."""
    return [test for test in tests if turn(test) == day.toordinal() % 10]


def in_parts(tests: Iterable[str], seed: int, at_least: int = 1) -> list[list[str]]:
    """The tests by file, in an order that the seed decides: another one is last each time.

    Args:
        tests: As pytest names them.
        seed: Decides the order of the files.
        at_least: How many tests a part has, if need be of several files.
    """
    files: dict[str, list[str]] = defaultdict(list)
    for test in tests:
        files[test.partition("::")[0]].append(test)
    in_order = [files[name] for name in sorted(files)]
    random.Random(seed).shuffle(in_order)
    parts: list[list[str]] = []
    for each in in_order:
        if parts and len(parts[-1]) < at_least:
            parts[-1] += each
        else:
            parts.append(each)
    return parts


@dataclass(slots=True)
class Runner:
    """Runs tests in processes of their own.

    Args:
        logs: The folder for what the processes write.
        more: More options for pytest.
        root: Where pytest is run.
    """

    logs: Path
    more: Sequence[str] = ()
    root: Path = ROOT
    _count: int = 0

    def collect(self) -> tuple[list[str], set[str]]:
        """The slow tests, and all tests."""
        path = self._new("collected")
        ended = self._pytest(["--collect-only", "-q", f"--outcomes={path}"], 600, path)
        if ended != 0:
            sys.exit(f"the tests cannot be collected\n{_tail(path)}")
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        slow = [line["test"] for line in lines if line["what"] == "collected"]
        return slow, {line["test"] for line in lines}

    def run(self, tests: Sequence[str], until: float) -> Outcomes:
        """Run tests of a file one after the other, in as many processes as they bring down."""
        found, left = Outcomes(), list(tests)
        while left and time.monotonic() < until:
            path = self._new(Path(left[0].partition("::")[0]).stem)
            ended = self._pytest([f"--outcomes={path}", *left], until - time.monotonic(), path)
            new = read_outcomes(path, stopped=ended is None)
            if ended not in {0, 1} and not new.failed() and ended is not None:
                # Not one of the tests, but the run of them is at fault.
                new.of |= {test: "died" for test in left if test not in new.of}
            for test in new.failed():
                _say(f"--- {test} ({_end(ended)}), {path}\n{_tail(path)}")
            found.update(new)
            left = [test for test in left if test not in found.of]
            if ended in {0, 1} and not new.of:
                break
        return found

    def _pytest(self, arguments: Sequence[str], seconds: float, path: Path) -> int | None:
        """The exit status of a run; None if it had to be stopped."""
        command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "slow", "-rs"]
        with path.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *self.more, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.root,
                start_new_session=True,
            )
            try:
                return process.wait(max(seconds, 0))
            except subprocess.TimeoutExpired:
                return None
            finally:
                _stop(process)

    def _new(self, name: str) -> Path:
        self._count += 1
        path = self.logs / f"{self._count:03}-{name}.jsonl"
        path.touch()
        return path


def read_outcomes(path: Path, *, stopped: bool) -> Outcomes:
    """What a process wrote; the test that it did not end was stopped with it, or ended it."""
    found = Outcomes()
    for line in path.read_text("utf-8").splitlines():
        told = json.loads(line)
        match told["what"]:
            case "collected" | "deselected":
                pass
            case "wrong":
                found.wrong.append(told["test"])
            case "began":
                found.of[told["test"]] = "stopped" if stopped else "died"
            case outcome:
                found.of[told["test"]] = outcome
                found.seconds[told["test"]] = told["seconds"]
                found.reasons[told["test"]] = told["reason"]
    return found


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End a run and all that it started: in good order if it can, else at once."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(path: Path) -> str:
    lines = path.with_suffix(".log").read_text("utf-8", "replace").splitlines()
    return "\n".join(lines[-_TAIL_LINES:])


def _end(status: int | None) -> str:
    match status:
        case None:
            return "stopped: no time left"
        case status if status < 0:
            return f"the process died: {signal.Signals(-status).name}"
        case status:
            return f"exit status {status}"


@dataclass(slots=True)
class Suite:
    """A run of chosen tests."""

    runner: Runner
    chosen: list[str]
    found: Outcomes = field(default_factory=Outcomes)
    second: Outcomes = field(default_factory=Outcomes)

    def first_try(self, parts: list[list[str]], workers: int, until: float, part_s: float) -> None:
        """Run all parts, some side by side."""

        def run(part: list[str]) -> None:
            began = time.monotonic()
            new = self.runner.run(part, min(until, began + part_s))
            counts = ", ".join(
                f"{n} {what}" for what, n in sorted(Counter(new.of.values()).items())
            )
            files, seconds = (
                {test.partition("::")[0]: None for test in part},
                time.monotonic() - began,
            )
            _say(f"{', '.join(files)}: {counts or 'not begun'} of {len(part)} in {seconds:.0f} s")
            self.found.update(new)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(run, parts))

    def second_try(self, until: float) -> None:
        """Run what failed once more, each test alone."""
        for test in self.found.failed():
            _say(f"once more, alone: {test}")
            self.second.update(self.runner.run([test], until))

    def failures(self) -> list[str]:
        """What counts: tests that did not pass at the second try either, and what they promised."""
        again = [test for test in self.found.failed() if self.second.of.get(test) != "passed"]
        return again + self.found.wrong + self.second.wrong

    def not_run(self) -> dict[str, str]:
        """The tests that did not run to their end, and why not."""
        found = self.found.of
        return {test: "not begun" for test in self.chosen if test not in found} | {
            test: "stopped: no time left" for test in found if found[test] == "stopped"
        }

    def outcomes(self) -> str:
        """What became of each test, as `pytest --outcomes` writes it; what did not run has failed."""
        last = self.found.of | self.second.of | dict.fromkeys(self.not_run(), "failed")
        lines = [
            {"what": what, "test": test, "seconds": self.found.seconds.get(test, 0)}
            | {"reason": self.found.reasons.get(test, "")}
            for test, what in last.items()
        ]
        lines += [{"what": "wrong", "test": each} for each in self.found.wrong + self.second.wrong]
        return "".join(f"{json.dumps(line)}\n" for line in lines)

    def report(self) -> str:
        """What is printed at the end."""
        counts = Counter(self.found.of.values())
        flaky = [test for test in self.found.failed() if self.second.of.get(test) == "passed"]
        skipped: dict[str, int] = Counter(
            self.found.reasons[test] for test, what in self.found.of.items() if what == "skipped"
        )
        longest = sorted(self.found.seconds, key=self.found.seconds.__getitem__)[-10:]
        lines = [
            (
                f"slow tests: {len(self.chosen)} chosen, {counts['passed'] + len(flaky)} passed,"
                f" {counts['skipped']} skipped, {len(self.failures())} failed,"
                f" {len(self.not_run())} did not run"
            ),
            *_listed("longest", [f"{self.found.seconds[each]:.0f} s {each}" for each in longest]),
            *_listed("skipped", [f"{count} x {reason}" for reason, count in skipped.items()]),
            *_listed("failed first and passed alone", flaky),
            *_listed("did not run", [f"{test} ({why})" for test, why in self.not_run().items()]),
            *_listed("failed", self.failures()),
        ]
        return "\n".join(lines)


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    return [f"{title}:", *(f"  {line}" for line in lines)] if lines else []


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them; 0 if nothing failed and, unless time was limited, everything ran."""
    options = _options(arguments)
    began = time.monotonic()
    logs = options.logs or Path(tempfile.mkdtemp(prefix="meterlake-slow-"))
    logs.mkdir(parents=True, exist_ok=True)
    runner = Runner(logs, options.pytest)
    slow, every = runner.collect()
    chosen = of_day(slow, options.tenth) if options.tenth else slow
    day = options.tenth or datetime.now(UTC).date()
    suite = Suite(runner, chosen)
    gone = sorted(set(read_list().values()) - every)
    suite.found.wrong += [f"{test} of tests/killed_steps.txt is not there" for test in gone]
    _say(f"{len(chosen)} of {len(slow)} slow tests, by the day {day}; logs: {logs}")
    minutes = options.minutes or (TENTH_MINUTES if options.tenth else None)
    end = began + minutes * 60 if minutes else float("inf")
    first = began + minutes * 60 * FIRST_TRY if minutes else end
    suite.first_try(
        in_parts(chosen, day.toordinal(), PART_TESTS),
        options.workers,
        first,
        options.part_minutes * 60,
    )
    suite.second_try(end if minutes else time.monotonic() + options.part_minutes * 60)
    _say(suite.report())
    if options.outcomes:
        options.outcomes.write_text(suite.outcomes(), "utf-8")
    return int(bool(suite.failures()) or (minutes is None and bool(suite.not_run())))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=".ci/slow", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--tenth",
        type=date.fromisoformat,
        nargs="?",
        const=datetime.now(UTC).date(),
        help="only the tests whose turn it is on a day (today)",
    )
    parser.add_argument("--minutes", type=float, help="for how long at most, in all")
    parser.add_argument("--part-minutes", type=float, default=PART_MINUTES, help="and each part")
    parser.add_argument("--workers", type=int, default=2, help="parts side by side")
    parser.add_argument("--logs", type=Path, help="the folder for what the tests write")
    parser.add_argument("--outcomes", type=Path, help="the file for the outcome of each test")
    parser.add_argument("pytest", nargs="*", help="after --: more options for pytest")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
