"""How work that takes long tells how far it is."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class Progress(Protocol):
    """Whom work tells how far it is: now and then, never row by row."""

    def __call__(self, rows: int, done: int, total: int, /) -> None:
        """Take note.

        Args:
            rows: Measurements since the last call.
            done: How much of the work is done: bytes of files, parts of a backfill.
            total: How much it is in all.
        """
        ...


def untold(_rows: int, _done: int, _total: int) -> None:
    """Tell nobody."""


class OfFiles:
    """One progress of several files, by their bytes."""

    def __init__(self, files: Iterable[Path], progress: Progress) -> None:
        self._progress = progress
        self._total = sum(path.stat().st_size for path in files if path.exists())
        self._before = 0

    def __call__(self, rows: int, done: int, _total: int) -> None:
        """Tell how far the file is that is read now."""
        self._progress(rows, self._before + done, self._total)

    def finish(self, file: Path) -> None:
        """Tell that a file is done, of which perhaps nothing was read: the rest of it counts, too."""
        self._before += file.stat().st_size if file.exists() else 0
        self._progress(0, self._before, self._total)
