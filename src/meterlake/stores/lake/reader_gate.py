"""Readers of a lake, known to the system: one short step of upkeep runs only while there are none.

DuckLake moves rows that live in the catalog to a file and deletes them from the catalog. A reader
that looked for files before and for rows after that would find them in neither. When it merges
files, it removes their entries and adds one: a reader whose look at the list of files had begun (the
SQLite extension asks for the last entry first, then for all up to that) would find none of them.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_TRIES: Final = 100
_PAUSE_S: Final = 0.02


@contextmanager
def reading(gate: Path) -> Iterator[None]:
    """Read while the body runs; waits only for `without_readers`, some milliseconds."""
    try:
        handle = os.open(gate, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        yield  # Where nothing may be written, nobody does upkeep.
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@contextmanager
def without_readers(gate: Path) -> Iterator[bool]:
    """Keep readers out while the body runs; false if there always were some, for two seconds."""
    handle = os.open(gate, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield _is_taken(handle)
    finally:
        os.close(handle)


def _is_taken(handle: int) -> bool:
    for _ in range(_TRIES):
        # Never waiting in line: readers would have to wait behind us.
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE_S)
    return False
