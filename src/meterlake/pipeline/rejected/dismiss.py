"""Rejected rows that nobody is to wait for: dismissed with a reason, and reopened if that was wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from meterlake.model.errors import Invalid, Required
from meterlake.model.values.counted import counted
from meterlake.pipeline.ingest.rejected_rows import places_of
from meterlake.stores import Stores
from meterlake.stores.lake.dismissals import Decision, decide_meant, decide_named
from meterlake.stores.lake.rejected import RejectedFilter

_BECAUSE_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Decided:
    """How many rows somebody dismissed or reopened.

    Attributes:
        rows: Those that were dismissed or reopened now.
        settled: Named ones for which there was nothing to do: they came in, are withdrawn with
            their source, or are so already.
    """

    rows: int
    settled: int = 0

    def to_wire(self) -> dict[str, int]:
        """The members of an answer, and of `--json`."""
        return {"rows": self.rows, "settled": self.settled}


@dataclass(frozen=True, slots=True)
class RowChoice:
    """Which rejected rows are meant: some by their ids, or all that filters mean."""

    ids: Sequence[str] = ()
    filters: RejectedFilter | None = None

    def check(self) -> None:
        """Check that it says something.

        Raises:
            Required: It names no row, and no filter.
            Invalid: It has both.
        """
        everything = RejectedFilter(status=None)
        meant = self.filters is not None and replace(self.filters, status=None) != everything
        if self.ids and meant:
            raise Invalid("rows", counted(len(self.ids), "row"), "give them without a filter")
        if not self.ids and not meant:
            raise Required("rows by their ids, or a filter")


def dismiss(stores: Stores, org_id: str, choice: RowChoice, because: str, author: str) -> Decided:
    """Give open rejected rows up: they are counted nowhere any more, and requeued only by name.

    Safe to repeat: a row that is dismissed keeps who dismissed it first.

    Raises:
        Required: Nothing says why, or which rows.
        Invalid: A row is none, or the reason is too long.
        NotFound: There is no such source.
        Unavailable: The lake failed.
    """
    because = because.strip()
    if not because:
        raise Required("because")
    if len(because) > _BECAUSE_MAX:
        raise Invalid("because", because[:80], f"it must have at most {_BECAUSE_MAX} characters")
    return _decide(stores, org_id, choice, Decision("dismiss", because, author, stores.now()))


def reopen(stores: Stores, org_id: str, choice: RowChoice, author: str) -> Decided:
    """Take dismissed rows up again: they wait for somebody as before.

    Raises:
        Required: Nothing says which rows.
        Invalid: A row is none.
        NotFound: There is no such source.
        Unavailable: The lake failed.
    """
    return _decide(stores, org_id, choice, Decision("reopen", None, author, stores.now()))


def _decide(stores: Stores, org_id: str, choice: RowChoice, decision: Decision) -> Decided:
    choice.check()
    lake = stores.lake(org_id)
    # Under the lock nothing becomes of the rows meanwhile.
    with lake.lock(), lake.transaction() as connection:
        named = places_of(connection, choice.ids)
        if named:
            rows = decide_named(connection, decision, named)
        else:
            assert choice.filters is not None
            rows = decide_meant(connection, decision, replace(choice.filters, status=None))
    return Decided(rows, len(named) - rows if named else 0)
