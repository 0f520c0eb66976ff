"""What becomes of late usage, and which of it memos carry."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Row, delete, insert, select, update

from meterlake.model.event_fields import ALERTS
from meterlake.model.events import LATE_USAGE_DECISION, Event, data
from meterlake.model.late_usage import LateLine, LateUsage, LateUsageStatus
from meterlake.model.money import ZERO, exact, plain
from meterlake.stores.state.billing.late_usage.late_bills import LateBill, read_late_bills
from meterlake.stores.state.billing.late_usage.rows import UNDECIDED_STATUSES, line_to_row
from meterlake.stores.state.billing.late_usage.tables import LATE_USAGE, LATE_USAGE_LINE
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.many_rows import insert_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_MEMO
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class LateDecision:
    """What becomes of late usage.

    Attributes:
        bill_version: The version of the content that it was compared with.
        lines: By how much each line differs.
    """

    status: LateUsageStatus
    until: int
    bill_version: int
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


def carried_amounts(reader: Reader, key: BillKey) -> dict[str, Decimal]:
    """What memos carry of a bill, by the keys of its lines."""
    query = (
        select(LATE_USAGE_LINE.c.key, LATE_USAGE_LINE.c.amount)
        .join(LATE_USAGE, LATE_USAGE.c.id == LATE_USAGE_LINE.c.late_usage_id)
        .where(
            LATE_USAGE.c.org == reader.org_id,
            *(LATE_USAGE.c[name] == getattr(key, name) for name in BillKey.COLUMNS),
            LATE_USAGE.c.status == LateUsageStatus.CARRIED.value,
        )
    )
    found: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for line_key, amount in reader.connection.execute(query):
            found[line_key] += Decimal(amount)
    return dict(found)


class ChangedBill(NamedTuple):
    """A bill that is another one than it was when memos carried something of it.

    Attributes:
        until: The snapshot of the lake until which late usage was looked for then.
    """

    bill: LateBill
    until: int


def changed_since_carried(
    reader: Reader, account_ids: Collection[str] | None = None
) -> list[ChangedBill]:
    """The bills that were made again, or anew, after memos carried something of them.

    Those of which something is undecided are left out: it is decided with all that is known.
    """
    found = []
    newest = _newest_of_carried(reader, account_ids)
    for ids in chunks_of({key.account_id for key in newest}):
        for bill in read_late_bills(reader, BILL.c.account_id.in_(ids)):
            row = newest.get(bill.key)
            if row is None or row.status in UNDECIDED_STATUSES:
                continue
            if (bill.id, bill.content_version) != (row.bill_id, row.bill_version):
                found.append(ChangedBill(bill, row.until))
    return found


def _newest_of_carried(
    reader: Reader, account_ids: Collection[str] | None
) -> dict[BillKey, Row[Any]]:
    """The newest row of each bill of which memos carry something, by its key."""
    carried = LATE_USAGE.alias()
    those = (
        select(carried.c.id)
        .where(
            carried.c.org == reader.org_id,
            carried.c.status == LateUsageStatus.CARRIED.value,
            *(carried.c[name] == LATE_USAGE.c[name] for name in BillKey.COLUMNS),
        )
        .exists()
    )
    query = select(LATE_USAGE).where(LATE_USAGE.c.org == reader.org_id, those)
    found: dict[BillKey, Row[Any]] = {}
    for row in reader.connection.execute(query.order_by(LATE_USAGE.c.until, LATE_USAGE.c.found)):
        key = BillKey.of_row(row)
        is_known = key in found and found[key].status in UNDECIDED_STATUSES
        if not is_known and (account_ids is None or row.account_id in account_ids):
            found[key] = row
    return found


def release_memos(transaction: Transaction, bill_id: str) -> None:
    """Before a bill is deleted: what its memos carry is to be carried anew.

    A memo that somebody deleted before stays what it is: nobody is to be charged for it.
    """
    lines = LATE_USAGE_LINE.c
    there = select(BILL_MEMO.c.id).where(BILL_MEMO.c.bill_id == bill_id)
    lost = (lines.memo_bill_id == bill_id) & lines.memo_id.in_(there)
    query = select(lines.late_usage_id).where(lost).distinct()
    ids = list(transaction.connection.execute(query).scalars())
    transaction.connection.execute(delete(LATE_USAGE_LINE).where(lost))
    for id_ in ids:
        _reopen(transaction, id_)


def _reopen(transaction: Transaction, id: str) -> None:
    """Have late usage decided again; what other memos of it carry stays carried."""
    [row] = transaction.connection.execute(select(LATE_USAGE).where(LATE_USAGE.c.id == id)).all()
    left = select(LATE_USAGE_LINE.c.position).where(LATE_USAGE_LINE.c.late_usage_id == id)
    if transaction.connection.execute(left.limit(1)).first() is not None:
        again = {**row._asdict(), "id": transaction.new_id(), "difference": None, "decided": None}
        again |= {"status": LateUsageStatus.OPEN.value, "found": transaction.now}
        transaction.connection.execute(insert(LATE_USAGE), again)
        return
    values = {"status": LateUsageStatus.OPEN.value, "difference": None, "decided": None}
    one = update(LATE_USAGE).where(LATE_USAGE.c.id == id)
    transaction.connection.execute(one.values(**values))
