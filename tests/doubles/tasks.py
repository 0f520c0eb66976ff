"""Tasks of fan-outs for tests: functions of a module, which other processes can import."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from meterlake.model.errors import Conflict, Unavailable
from meterlake.stores import Stores


def describe(stores: Stores, *arguments: Any) -> dict[str, Any]:
    """Say who runs the task, with what."""
    return {
        "pid": os.getpid(),
        "home": str(stores.home),
        "threads": stores.settings.threads,
        "runner": stores.settings.runner,
        "arguments": arguments,
    }


def fail_if(_stores: Stores, number: int, kind: str) -> int:
    """Fail in a way."""
    if kind == "Conflict":
        raise Conflict(f"number {number} cannot be done")
    if kind == "Unavailable":
        raise Unavailable("the disk", f"number {number} failed")
    if kind == "bug":
        raise ZeroDivisionError(f"number {number}")
    return number


def die_once(_stores: Stores, folder: Path, times: int) -> str:
    """Kill this process as often as told, then answer; what it did is counted in the folder."""
    mark = folder / f"{os.getpid()}-{time.monotonic_ns()}"
    mark.touch()
    if len(list(folder.iterdir())) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def wait_for_file(_stores: Stores, begun: Path, until: Path) -> int:
    """Note the process, and wait until a file is there."""
    begun.write_text(str(os.getpid()))
    while not until.exists():
        time.sleep(0.02)
    return os.getpid()


def draws_progress(stores: Stores) -> bool:
    """Whether DuckDB would draw how far a long query is."""
    with stores.lake(stores.state.organization().id).apart() as connection:
        [drawn] = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
    return bool(drawn[0])
