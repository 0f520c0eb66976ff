"""Commands of meterlake as processes: servers and workers, until a test ends them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx

from meterlake.settings import Settings, as_environment
from meterlake.stores.processes import free_port

WAIT_S = 180
# A log that nobody reads until the end must fit, or whoever writes to it waits for ever.
_LOG_BYTES = 2**20
_COMMAND = "from meterlake.cli import main; main()"
Process = subprocess.Popen[str]


def command_environment(settings: Settings, **more: str) -> dict[str, str]:
    """What a process of a home is told, and nothing that the machine around it says."""
    kept = {name: each for name, each in os.environ.items() if not name.startswith("METERLAKE_")}
    path = os.pathsep.join(filter(None, sys.path))
    own = {"METERLAKE_PREFECT_URL": "", "METERLAKE_THREADS": "1", "PYTHONPATH": path}
    return {**kept, **own, **as_environment(settings), **more}


@contextmanager
def command(settings: Settings, *arguments: str, **environment: str) -> Iterator[Process]:
    """A command of a home in a process of its own, which is killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _COMMAND, *arguments],
        env=command_environment(settings, **environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pipesize=_LOG_BYTES,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def api_server(settings: Settings, **environment: str) -> Iterator[tuple[str, Process]]:
    """`serve --api-only`, once it is ready: its URL, and the process."""
    port = free_port()
    with command(settings, "serve", "--api-only", "--port", str(port), **environment) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(url, process))
        yield url, process


@contextmanager
def worker(
    settings: Settings, *arguments: str, **environment: str
) -> Iterator[tuple[str, Process]]:
    """`worker`, once it is ready: where it says so, and the process."""
    port = free_port()
    with command(settings, "worker", "--port", str(port), *arguments, **environment) as process:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: is_ready(url, process))
        yield url, process


def is_ready(url: str, process: Process) -> bool:
    """Whether a process that runs says that it is ready."""
    assert process.poll() is None, process.stderr and process.stderr.read()
    try:
        return httpx.get(f"{url}/readyz", timeout=WAIT_S).is_success
    except httpx.HTTPError:
        return False


def wait_until(condition: Callable[[], object], seconds: float = WAIT_S) -> None:
    """Wait until something is so."""
    give_up = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def drain(*processes: Process) -> None:
    """Ask processes to stop; all of them end in order."""
    for process in processes:
        process.send_signal(signal.SIGTERM)
    for process in processes:
        _, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors, errors
