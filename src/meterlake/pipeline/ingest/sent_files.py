"""Staged files on their way to a bucket while others of their source are still written."""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from uuid import uuid4

from meterlake.model.measurements.measurement import CALCULATION_ERROR
from meterlake.stores.lake.connection import INLINED_ROWS_MAX
from meterlake.stores.lake.staged import StagedFile

# Staged files whose rows stay whatever becomes of the measurements beside them.
WHOLE: Final = frozenset({"rejected", "requeue"})
# Those that may have too few rows for a file of their own.
_INLINED: Final = WHOLE | {CALCULATION_ERROR}


class SentFiles:
    """Sends the files of a source that will have files of their own in the lake.

    Attributes:
        names: The paths of those that were sent, below their tables' folders.
    """

    def __init__(self, send: Callable[[str, Path, str], None]) -> None:
        self.names: dict[Path, str] = {}
        self._to_lake = send

    def send(self, file: StagedFile) -> None:
        """Send a file that is finished."""
        if not is_inlined(file):
            self.names[file.path] = new_name(file)
            self._to_lake(file.table, file.path, self.names[file.path])


def is_inlined(file: StagedFile) -> bool:
    """Whether its rows are stored in the catalog: they are too few for a file."""
    return file.table in _INLINED and file.rows <= INLINED_ROWS_MAX


def new_name(file: StagedFile) -> str:
    """A path below the folder of the file's table that no other file has."""
    return f"{file.partition}/{uuid4()}.parquet".lstrip("/")
