"""Changes of bills that somebody names: one bill after the other, each of them whole or not at all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import MeterlakeError, NotFound, Unavailable
from meterlake.pipeline.billing.bills import (
    approve_bills,
    delete_bill,
    lock_bill,
    read_heads,
    set_status,
)
from meterlake.pipeline.billing.open_points import count_open_points
from meterlake.pipeline.config.entities import Document
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.lists import BillFilters


class BillAction(StrEnum):
    """What is done to a bill."""

    APPROVE = "approve"
    UNAPPROVE = "unapprove"
    LOCK = "lock"
    DELETE = "delete"

    @property
    def permission(self) -> str:
        """What the API asks for before it does the same."""
        return "config:delete" if self is BillAction.DELETE else "config:update"


class BillChangeOutcome(StrEnum):
    """What became of a bill."""

    APPROVED = "approved"
    WAITING = "waits"
    LOCKED = "locked"
    DELETED = "deleted"
    UNCHANGED = "as it was"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class BillChange:
    """What became of one bill.

    Attributes:
        bill: The bill as it was, without its lines.
        error: Why it stays as it was.
    """

    bill: Document
    outcome: BillChangeOutcome
    error: MeterlakeError | None = None


def change_bills(
    organization: Organization, author: str, action: BillAction, ids: Sequence[str]
) -> Iterator[BillChange]:
    """Do something to bills, each in a transaction of its own: one that is refused stops no other.

    Args:
        organization: The organization; `rehearsed()` to find out what would become of them.
        author: Who does it.
        action: What.
        ids: The bills.

    Raises:
        NotFound: One of them does not exist; then nothing is done.
        Unavailable: State cannot be reached; the bills before it are changed.
    """
    change, changed = _CHANGES[action]
    heads = {each["id"]: each for each in read_heads(organization, ids)}
    for id_ in ids:
        if id_ not in heads:
            raise NotFound("bill", id_)
    for id_ in ids:
        try:
            is_new = change(organization, author, id_)
        except Unavailable:
            raise
        except MeterlakeError as error:
            yield BillChange(heads[id_], BillChangeOutcome.REFUSED, error)
        else:
            yield BillChange(heads[id_], changed if is_new else BillChangeOutcome.UNCHANGED)


def open_points_of(
    organization: Organization, ids: Sequence[str], *, also_approved: bool = False
) -> str:
    """What is open about bills before they are approved, or locked; empty if nothing."""
    filters = BillFilters(ids=tuple(ids))
    return count_open_points(organization, filters, also_approved=also_approved).describe()


def _approve(organization: Organization, author: str, id: str) -> bool:
    return approve_bills(organization, author, [id]) > 0


def _take_approval_back(organization: Organization, author: str, id: str) -> bool:
    [before] = read_heads(organization, [id])
    after = set_status(organization, author, id, BillStatus.PENDING)
    return bool(after["version"] != before["version"])


def _lock(organization: Organization, author: str, id: str) -> bool:
    lock_bill(organization, author, id)
    return True


def _delete(organization: Organization, author: str, id: str) -> bool:
    delete_bill(organization, author, id)
    return True


_Change = Callable[[Organization, str, str], bool]
_CHANGES: Final[Mapping[BillAction, tuple[_Change, BillChangeOutcome]]] = {
    BillAction.APPROVE: (_approve, BillChangeOutcome.APPROVED),
    BillAction.UNAPPROVE: (_take_approval_back, BillChangeOutcome.WAITING),
    BillAction.LOCK: (_lock, BillChangeOutcome.LOCKED),
    BillAction.DELETE: (_delete, BillChangeOutcome.DELETED),
}
