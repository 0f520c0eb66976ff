"""Long runs make millions of objects that stay: Python seldom searches them for garbage."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

# What a run makes has hardly any cycles: new objects between two searches, instead of 700.
_BETWEEN_SEARCHES: Final = 200_000


class _Runs:
    """How many runs of this process are under way, and what was set before the first of them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._usual = gc.get_threshold()
        self._spared = False

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._usual = gc.get_threshold()
                gc.set_threshold(_BETWEEN_SEARCHES, *self._usual[1:])
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                gc.set_threshold(*self._usual)
                self._search_all()

    def spare(self) -> None:
        with self._lock:
            self._spared = True
            gc.freeze()

    def clear(self) -> None:
        with self._lock:
            self._search_all()
        gc.collect()

    def _search_all(self) -> None:
        # What somebody else froze stays so.
        if self._spared:
            gc.unfreeze()
        self._spared = False


_RUNS: Final = _Runs()


@contextmanager
def rare_garbage_searches() -> Iterator[None]:
    """Let Python's search for cycles run seldom until the end of a long run; runs may overlap."""
    _RUNS.begin()
    try:
        yield
    finally:
        _RUNS.end()


def spare_what_is_there() -> None:
    """Within a long run: search none of the objects that there are now until its end.

    The entities and quantities of 50,000 accounts are millions of objects, and every full search
    would visit all of them.
    """
    _RUNS.spare()


def clear_garbage() -> None:
    """Within a long run: free what was spared and nobody needs any more, cycles too."""
    _RUNS.clear()
