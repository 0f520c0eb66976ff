"""What came late for bills: found, written down, and decided."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from sqlalchemy import Row, delete, func, insert, or_, select, update

from meterlake.model.bills.late_usage import (
    LateLine,
    LateSource,
    LateUsage,
    LateUsageStatus,
    is_correction,
    merge_sources,
)
from meterlake.model.resources.event_fields import ALERTS
from meterlake.model.resources.events import LATE_USAGE_DECISION, Event, data
from meterlake.model.values.money import plain
from meterlake.stores.state.billing.late_usage.late_bills import LateBill
from meterlake.stores.state.billing.late_usage.rows import (
    LATE_USAGE,
    LATE_USAGE_LINE,
    line_to_row,
    naming_damaged,
    read_undecided_rows,
    sources_from_text,
    sources_to_text,
)
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.reader import DamagedRow, Reader
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class LateFinding:
    """Late usage of a bill that was found just now.

    Attributes:
        since: What came after this snapshot of the lake.
        until: It was looked for until this one.
    """

    bill: LateBill
    since: int
    until: int
    sources: Sequence[LateSource]


def looked_until(reader: Reader, bill_ids: Collection[str]) -> dict[str, int]:
    """Until which snapshot late usage of the calculations of bills was looked for, if they had some."""
    found: dict[str, int] = {}
    for ids in chunks_of(bill_ids):
        query = (
            select(LATE_USAGE.c.bill_id, func.max(LATE_USAGE.c.until))
            .join(BILL, BILL.c.id == LATE_USAGE.c.bill_id)
            .where(
                LATE_USAGE.c.org == reader.org_id,
                LATE_USAGE.c.bill_id.in_(ids),
                or_(
                    LATE_USAGE.c.ledger_at.is_(None),
                    LATE_USAGE.c.ledger_at == func.coalesce(BILL.c.ledger_at, 0),
                ),
            )
            .group_by(LATE_USAGE.c.bill_id)
        )
        found |= {id_: int(until) for id_, until in reader.connection.execute(query)}
    return found


def settled_until(reader: Reader, bill_ids: Collection[str]) -> dict[str, int]:
    """Until which snapshot bills have, or memos carry, all that came late for them."""
    found = looked_until(reader, bill_ids)
    for row in read_undecided_rows(reader, list(found)):
        found.pop(row.bill_id, None)
    return found


def note_late_usage(transaction: Transaction, findings: Sequence[LateFinding]) -> int:
    """Write down what was found, unless somebody did so meanwhile; how many rows changed.

    What comes after something that is still undecided is added to it.
    """
    known = looked_until(transaction, [each.bill.id for each in findings])
    new = [each for each in findings if known.get(each.bill.id, each.since) <= each.since]
    undecided: dict[str, Row[Any]] = {}
    damaged: set[str] = set()
    for row in read_undecided_rows(transaction, [each.bill.id for each in new]):
        try:
            with naming_damaged(row.id, row.bill_version):
                if not is_correction(sources_from_text(row.sources)):
                    undecided[row.bill_id] = row
        except DamagedRow:
            # Whoever decides it has its account fail.
            damaged.add(row.bill_id)
    for each in new:
        before = undecided.get(each.bill.id)
        if before is not None:
            values = {
                "until": each.until,
                "ledger_at": each.bill.ledger_at,
                "status": LateUsageStatus.OPEN.value,
                "sources": sources_to_text(
                    merge_sources(sources_from_text(before.sources), each.sources)
                ),
            }
            one = update(LATE_USAGE).where(LATE_USAGE.c.id == before.id)
            transaction.connection.execute(one.values(**values))
        elif each.bill.id not in damaged:
            insert_finding(transaction, each)
    return len(new)


def insert_finding(transaction: Transaction, finding: LateFinding) -> str:
    """Write down what was found, beside what is there; the id of the row."""
    bill, key, id_ = finding.bill, finding.bill.key, transaction.new_id()
    row = {
        "id": id_,
        "org": transaction.org_id,
        "bill_id": bill.id,
        **{name: getattr(key, name) for name in BillKey.COLUMNS},
        "period": bill.period,
        "currency": bill.currency,
        "since": finding.since,
        "until": finding.until,
        "status": LateUsageStatus.OPEN.value,
        "bill_version": bill.content_version,
        "ledger_at": bill.ledger_at,
        "sources": sources_to_text(finding.sources),
        "found": transaction.now,
    }
    transaction.connection.execute(insert(LATE_USAGE), row)
    return id_


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
