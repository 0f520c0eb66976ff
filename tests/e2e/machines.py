"""A machine that runs jobs of exports and stops where it is told to: a program, and who talks to it.

It reads lines: the number of a job and a step. At that step it says so and waits for another line;
at the end it says how the job ended.
"""

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Of a step that no job has.
NEVER = "never"
_PATIENCE_S = 120


class Machine:
    """The other end of the program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def tell(self, line: str) -> None:
        """Say a line to it."""
        assert self._process.stdin
        self._process.stdin.write(line.encode() + b"\n")

    def says(self) -> str:
        """Wait for its next line."""
        out = self._process.stdout
        assert out
        assert select.select([out], [], [], _PATIENCE_S)[0], "the machine hangs"
        return out.readline().decode().rstrip()

    def until(self, job: int, step: str) -> None:
        """Have it work at a job until it reaches a step."""
        self.tell(f"{job} {step}")
        assert self.says() == f"at {step}"

    def result(self) -> str:
        """Let it go on to the end of the job."""
        self.tell("go")
        return self.says()


@contextmanager
def machine(home: Path, org_id: str, state: str, later_minutes: int = 0) -> Iterator[Machine]:
    """Start one.

    Args:
        home: Its home folder.
        org_id: The organization.
        state: The database of State.
        later_minutes: How far its clock is ahead.
    """
    command = [sys.executable, "-m", "tests.e2e.machines", str(home), org_id, state]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, ["src", ".", *sys.path]))}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, str(later_minutes)], stdin=pipe, stdout=pipe, env=env, bufsize=0
    ) as process:
        try:
            started = Machine(process)
            assert started.says() == "ready"
            yield started
        finally:
            process.kill()


def _work(home: str, org_id: str, state: str, later_minutes: str) -> None:
    from tests.e2e.exporting import AFTERWARDS, configured, jobs_of
    from tests.homes import open_home

    with open_home(Path(home), org_id, state=state) as opened:
        configured(opened)
        jobs = jobs_of(opened)
        opened.clock.time = AFTERWARDS
        opened.clock.advance(hours=1, minutes=int(later_minutes))
        _say("ready")
        for line in iter(sys.stdin.readline, ""):
            number, step = line.split()
            _say(_ran(opened, jobs[int(number)].id, step))


def _ran(home: Any, job_id: str, stop_at: str) -> str:
    from meterlake.model.errors import MeterlakeError
    from meterlake.model.values import failpoint
    from meterlake.pipeline.export.run import run_export

    left, one_at_a_time = [stop_at], threading.Lock()

    def stop(step: str) -> None:
        with one_at_a_time:
            if step not in left:
                return
            left.clear()
        _say(f"at {step}")
        sys.stdin.readline()

    failpoint.hook = stop
    try:
        run_export(home.stores, job_id)
    except MeterlakeError as error:
        return type(error).__name__
    return "complete"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _work(*sys.argv[1:])
