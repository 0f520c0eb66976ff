"""What came late for bills: found, and written down."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func, insert, or_, select, update

from meterlake.model.bills.late_usage import (
    LateSource,
    LateUsageStatus,
    is_correction,
    merge_sources,
)
from meterlake.stores.state.billing.late_usage.late_bills import LateBill
from meterlake.stores.state.billing.late_usage.rows import (
    naming_damaged,
    read_undecided_rows,
    sources_from_text,
    sources_to_text,
)
from meterlake.stores.state.billing.late_usage.tables import LATE_USAGE
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.chunks import chunks_of
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
            _extend(transaction, before, each)
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


def _extend(transaction: Transaction, row: Row[Any], finding: LateFinding) -> None:
    values = {
        "until": finding.until,
        "ledger_at": finding.bill.ledger_at,
        "status": LateUsageStatus.OPEN.value,
        "sources": sources_to_text(merge_sources(sources_from_text(row.sources), finding.sources)),
    }
    one = update(LATE_USAGE).where(LATE_USAGE.c.id == row.id)
    transaction.connection.execute(one.values(**values))
