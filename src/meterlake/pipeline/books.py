"""Whether the books balance, source by source and in all: the verb `check_books`."""

from typing import Final

from meterlake.model.events import BOOKS_ALERT
from meterlake.pipeline.incidents import settle
from meterlake.stores import Stores
from meterlake.stores.books import Books, compare

# An event is no report: it names the first differences.
_TOLD_MAX: Final = 10


def check_books(stores: Stores, org_id: str) -> Books:
    """Compare the ledger of an organization's lake with what is in the lake.

    For every source: received = accepted + repeats + rejected, as many rejected rows as it says,
    as many known uids and measurements as it accepted, without those that backfills retracted. A
    difference is an incident until all fits.

    Raises:
        NotFound: The organization has no lake.
        Unavailable: The disk, the lake or State failed.
    """
    with stores.lake(org_id).reader() as connection:
        books = compare(connection)
    found = {}
    if not books.balanced:
        told = [str(each) for each in books.differences[:_TOLD_MAX]]
        message = f"the books do not balance: {told[0]}"
        found[BOOKS_ALERT, org_id] = {"message": message, "differences": told}
    settle(stores, org_id, (BOOKS_ALERT,), found)
    return books
