"""What becomes of late usage, written down with its event."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from sqlalchemy import delete, update

from meterlake.model.bills.late_usage import LateLine, LateUsage, LateUsageStatus
from meterlake.model.resources.event_fields import ALERTS
from meterlake.model.resources.events import LATE_USAGE_DECISION, Event, data
from meterlake.model.values.money import plain
from meterlake.stores.state.billing.late_usage.rows import line_to_row
from meterlake.stores.state.billing.late_usage.tables import LATE_USAGE, LATE_USAGE_LINE
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.many_rows import insert_rows
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDecision:
    """What becomes of late usage.

    Attributes:
        bill_version: The version of the content that it was compared with.
        ledger_at: The last transaction of the ledger of its calculation; None if it is deleted.
        lines: By how much each line differs.
    """

    status: LateUsageStatus
    until: int
    bill_version: int
    ledger_at: int | None
    difference: Decimal | None = None
    lines: Sequence[LateLine] = ()
    new_version: int | None = None
    reason: str | None = None


def decide_late_usage(transaction: Transaction, late: LateUsage, decision: LateDecision) -> None:
    """Write down what becomes of late usage, with its event unless it became the same before."""
    id_ = late.id
    values = {
        "status": decision.status.value,
        "until": decision.until,
        "bill_version": decision.bill_version,
        "ledger_at": decision.ledger_at,
        "difference": None if decision.difference is None else plain(decision.difference),
        "new_version": decision.new_version,
        "reason": decision.reason,
        "decided": transaction.now,
    }
    one = update(LATE_USAGE).where(LATE_USAGE.c.id == id_)
    transaction.connection.execute(one.values(**values))
    lines = LATE_USAGE_LINE.c.late_usage_id == id_
    transaction.connection.execute(delete(LATE_USAGE_LINE).where(lines))
    rows = [line_to_row(id_, n, each) for n, each in enumerate(decision.lines, start=1)]
    insert_rows(transaction.connection, LATE_USAGE_LINE, rows)
    _add_event(transaction, late, decision)


def _add_event(transaction: Transaction, late: LateUsage, decision: LateDecision) -> None:
    """Note what became of late usage. A failure that is tried again is no news."""
    before = late.status, late.difference, late.reason
    if before == (decision.status, decision.difference, decision.reason):
        return
    account = account_names.by_id(transaction, [late.account_id]).get(late.account_id)
    decided = replace(
        late,
        account_code="" if account is None else account.code,
        status=decision.status,
        bill_version=decision.bill_version,
        difference=decision.difference,
        new_version=decision.new_version,
        reason=decision.reason,
        decided=transaction.now,
    )
    found = {name: decided.to_wire().get(name) for name in ALERTS[LATE_USAGE_DECISION]}
    shown = {name: value for name, value in found.items() if value is not None}
    event = Event(LATE_USAGE_DECISION, "LateUsage", late.id, data(shown, None), late.account_id)
    transaction.journal.add(event)
