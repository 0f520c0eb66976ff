"""The worker of a home: as a process, or here by a clock that a test turns."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta

from meterlake.settings import Settings, as_environment
from meterlake.worker.__main__ import start_rounds
from meterlake.worker.rounds import ROUNDS


@contextmanager
def worker_process(settings: Settings, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The worker of a home in a process of its own, without Prefect, until the body ends."""
    path = os.pathsep.join(filter(None, sys.path))
    env = {
        **os.environ,
        **as_environment(settings),
        "METERLAKE_PREFECT_URL": "",
        "PYTHONPATH": path,
        **environment,
    }
    command = [sys.executable, "-m", "meterlake.worker"]
    with subprocess.Popen(
        command, env=env, cwd=settings.home, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(60) == 0


class AheadClock:
    """The real time, and as much later as a test says."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@contextmanager
def worker_rounds(settings: Settings, now: Callable[[], datetime]) -> Iterator[None]:
    """All rounds of the worker in threads of this process, by a clock, until the body ends."""
    ends: list[int] = []
    options = settings.model_copy(update={"prefect_url": ""})
    with ExitStack() as opened, ThreadPoolExecutor(len(ROUNDS)) as pool:
        rounds = start_rounds(opened, pool, options, lambda: bool(ends), now)
        try:
            yield
        finally:
            ends.append(0)
            for each in rounds:
                each.result(60)
