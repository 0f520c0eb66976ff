"""What the files of measurements were when bills were made from them first."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import select

from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.many_rows import insert_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import LAKE_FILE
from meterlake.stores.state.core.transaction import Transaction


class NotedFile(NamedTuple):
    """A file of a lake.

    Attributes:
        sha256: None where nobody knows.
    """

    path: str
    size_bytes: int
    sha256: str | None


def read_noted(reader: Reader, paths: Iterable[str]) -> dict[str, NotedFile]:
    """What is known of files, by their paths."""
    found: dict[str, NotedFile] = {}
    table = LAKE_FILE.c
    for chunk in chunks_of(paths):
        query = select(table.path, table.size_bytes, table.sha256).where(
            table.org == reader.org_id, table.path.in_(chunk)
        )
        found |= {row.path: NotedFile(*row) for row in reader.connection.execute(query)}
    return found


def note_files(transaction: Transaction, files: Collection[NotedFile]) -> None:
    """Write down what files are, but for those that somebody has noted meanwhile."""
    known = read_noted(transaction, [each.path for each in files])
    own = {"org": transaction.org_id, "noted": transaction.now}
    rows = [each._asdict() | own for each in files if each.path not in known]
    insert_rows(transaction.connection, LAKE_FILE, rows)
