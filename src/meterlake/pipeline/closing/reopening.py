"""Opening a month again that was closed: what that takes back, and what it cannot."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Conflict, Locked, NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.closing.close_month import Closing, ClosingStep
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from meterlake.stores.state.integrations.runs import sent_entities

# Bills of one transaction: other writers of State wait for as long as it takes.
_BATCH: Final = 200
_BILL: Final = "Bill"


@dataclass(frozen=True, slots=True)
class Reopened:
    """A month that is open again.

    Attributes:
        pending_bills: How many of its bills wait for an approval again.
        locked_bills: How many stay, because they are locked or the lock date closes them.
        sent_bills: How many stay approved, because other systems have them, or are about to get them.
        backfills: The ids of those that the closing applied; they stay applied.
        manifests: Of the exports that the closing wrote; the files stay.
    """

    month: str
    reason: str
    pending_bills: int
    locked_bills: int
    sent_bills: int
    backfills: list[str]
    manifests: list[str]

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "type": "reopened",
            "month": self.month,
            "reason": self.reason,
            "undone": {"pendingBills": self.pending_bills},
            "kept": {
                "lockedBills": self.locked_bills,
                "sentBills": self.sent_bills,
                "backfills": self.backfills,
                "manifests": self.manifests,
            },
        }


def reopen_month(closing: Closing, reason: str) -> Reopened:
    """Open a month again that was closed: its approvals are taken back, and it begins anew.

    Bills that are locked, or that other systems have, stay as they are. So do files of exports,
    backfills that were applied, messages that were sent, and the published file until the next one.

    Args:
        closing: The closing.
        reason: Why; it is kept with the closing.

    Raises:
        Conflict: The month is not closed, or the worker still does something about it.
    """
    if not closing.is_closed:
        raise Conflict(
            f"{closing.month} is not closed: there is nothing to reopen;"
            f" {closing.how_to_review} goes on with it"
        )
    closing.check_nothing_pending()
    done = closing.outcomes()
    # Have the approved bills of the month wait again, but for those that nobody can take back.
    state, org_id = closing.organization.state, closing.organization.id
    with state.reading(org_id) as reader:
        stored = read_month_bills(reader, str(closing.month))
        open_ = [each.id for each in stored if not each.is_locked]
        sent = sent_entities(reader, _BILL, open_)
    ids = [each for each in open_ if each not in sent]
    for start in range(0, len(ids), _BATCH):
        with state.transaction(org_id, closing.author) as transaction:
            for id_ in ids[start : start + _BATCH]:
                # Somebody may have deleted or locked it meanwhile.
                with suppress(Locked, NotFound):
                    bills.set_status(transaction, id_, BillStatus.PENDING)
    mark_step("closing.approvals_taken_back")
    with closing.organization.reading() as reader:
        left = read_month_bills(reader, str(closing.month))
    closing.reopen(reason)
    approved = [each for each in left if each.status is BillStatus.APPROVED]
    exports = (ClosingStep.EXPORT_USAGE, ClosingStep.EXPORT_OPERATIONAL)
    return Reopened(
        month=str(closing.month),
        reason=reason,
        pending_bills=len(left) - len(approved),
        locked_bills=sum(each.is_locked for each in approved),
        sent_bills=sum(not each.is_locked for each in approved),
        backfills=list(done.get(ClosingStep.BACKFILL, {}).get("applied", ())),
        manifests=[done[step]["manifest"] for step in exports if step in done],
    )
