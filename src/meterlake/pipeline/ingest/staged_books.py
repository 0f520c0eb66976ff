"""The books of one source, compared before they are written: what cannot be right is not committed."""

from collections import Counter
from collections.abc import Container, Iterable

from meterlake.model.errors import NotReconciled
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.resources.events import BOOKS_ALERT
from meterlake.pipeline.events.incidents import resolve
from meterlake.stores import Stores
from meterlake.stores.lake.staged import StagedFile


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


def tell_unbalanced(stores: Stores, org_id: str, error: NotReconciled) -> None:
    """Raise the alert; it is over when the books were compared and balance.

    Raises:
        Unavailable: State failed.
    """
    found = {(BOOKS_ALERT, org_id): {"message": str(error), "differences": [str(error)]}}
    resolve(stores, org_id, (BOOKS_ALERT,), found)
