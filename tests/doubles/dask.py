"""A Dask scheduler and its workers as processes of their own, which tests may kill."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meterlake.stores.processes import free_port

ROOT = Path(__file__).parents[2]
_COME_S = 180


class DaskCluster:
    """A scheduler with workers, each with one thread."""

    def __init__(self, folder: Path, workers: int = 2, *, slow: bool = False) -> None:
        self._loaded = ("--preload", "tests.doubles.slow_steps") if slow else ()
        self.port = free_port()
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(self.port))
        self.workers = [self.add_worker() for _ in range(workers)]

    @property
    def runner(self) -> str:
        """The runner that leads to it."""
        return f"dask://127.0.0.1:{self.port}"

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Start another worker; without a nanny, so that nobody starts it again."""
        return self._start(
            "worker",
            f"tcp://127.0.0.1:{self.port}",
            *("--nthreads", "1", "--no-nanny", *self._loaded),
        )

    def wait_for_workers(self) -> None:
        """Wait until the scheduler, and all of them, have come: on a busy machine that takes a while."""
        from distributed import Client

        address = f"tcp://127.0.0.1:{self.port}"
        with Client(address, timeout=_COME_S, set_as_default=False) as client:
            if self.workers:
                client.wait_for_workers(len(self.workers), timeout=_COME_S)

    def close(self) -> None:
        for each in (*self.workers, self.scheduler):
            each.kill()
            each.wait()

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self._folder / f"dask-{kind}.log").open("ab")
        command = [sys.executable, "-m", "distributed.cli.dask_" + kind, *arguments]
        with log:
            return subprocess.Popen(
                [*command, "--no-dashboard"],
                env=self._environment,
                cwd=self._folder,
                stdout=log,
                stderr=log,
            )


@contextmanager
def dask_cluster(folder: Path, workers: int = 2, *, slow: bool = False) -> Iterator[DaskCluster]:
    """A cluster while the body runs; its steps may be slow, so that one can kill in the middle."""
    cluster = DaskCluster(folder, workers, slow=slow)
    try:
        cluster.wait_for_workers()
        yield cluster
    finally:
        cluster.close()


def kill(process_id: int) -> None:
    """End a process at once."""
    os.kill(process_id, signal.SIGKILL)


def wait_until(path: Path, seconds: float = 60) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.05)
