"""Staged files of one source: sent to a bucket while others are still written, and counted before the commit.

What cannot be right is not committed.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Final
from uuid import uuid4

from meterlake.model.errors import NotReconciled
from meterlake.model.measurements.measurement import CALCULATION_ERROR
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.resources.events import BOOKS_ALERT
from meterlake.pipeline.events.incidents import resolve
from meterlake.stores import Organization
from meterlake.stores.lake.connection import INLINED_ROWS_MAX
from meterlake.stores.lake.staged_parquet import StagedFile

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


def check_staged(receipt: Receipt, files: Iterable[StagedFile], meters: Container[str]) -> None:
    """Compare the numbers of a receipt with the rows that are about to be committed.

    Args:
        receipt: The receipt as it is to be written; that its own numbers add up, it knows itself.
        files: The staged files that become part of the lake.
        meters: The names of the tables of meters.

    Raises:
        UnbalancedBooks: They differ.
    """
    rows: Counter[str] = Counter()
    for file in files:
        rows["measurements" if file.table in meters else file.table] += file.rows
    for table, told in (
        ("measurements", receipt.accepted),
        ("uid_index", receipt.accepted),
        ("rejected", receipt.rejected),
    ):
        if rows[table] != told:
            raise NotReconciled(receipt.delivery.name, table, told, rows[table])


def tell_unbalanced(organization: Organization, error: NotReconciled) -> None:
    """Raise the alert; it is over when the books were compared and balance.

    Raises:
        Unavailable: State failed.
    """
    found = {(BOOKS_ALERT, organization.id): {"message": str(error), "differences": [str(error)]}}
    resolve(organization, (BOOKS_ALERT,), found)
