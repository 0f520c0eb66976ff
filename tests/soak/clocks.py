"""Processes with a clock of their own: a small library says another time of day to one process.

libfaketime was tried: its 0.9.10 makes `time.sleep` of Python fail with EINVAL.
"""

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("clock.c")


def missing() -> str | None:
    """Why no process can have another clock here, or None."""
    if shutil.which("cc") is None:
        return "no C compiler (cc) makes the library that shifts a clock"
    return None


@cache
def _library() -> str:
    # It outlives the tests that made it; a newer source makes another one.
    name = f"soak-clock-{os.getuid()}-{_SOURCE.stat().st_mtime_ns}.so"
    found = Path(tempfile.gettempdir(), name)
    if not found.exists():
        made = found.with_suffix(f".{os.getpid()}")
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(made), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        made.rename(found)
    return str(found)


def shifted_clock(seconds: int) -> dict[str, str]:
    """Variables by which a process has another time of day; intervals stay right."""
    return {"LD_PRELOAD": _library(), "SOAK_CLOCK_S": str(seconds)}
