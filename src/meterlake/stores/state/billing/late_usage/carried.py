"""What memos carry of bills: as long as it counts, when it is to be taken back, and when it is lost.

What a memo carries counts for the calculation that it was decided for. A later one has the usage
itself, or says that there is none: then the memo is taken back, whatever the policy.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, time
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, or_, select, update

from meterlake.model.bills.late_usage import (
    LateLine,
    LateUsageStatus,
    is_correction,
    merge_sources,
)
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.billing.late_usage.late_bills import READ_UNTIL, LateBill
from meterlake.stores.state.billing.late_usage.rows import (
    LATE_USAGE,
    LATE_USAGE_LINE,
    line_from_row,
    naming_damaged,
    read_undecided_rows,
    sources_from_text,
    sources_to_text,
)
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_MEMO
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.jobs import JOB

_LINE: Final = LATE_USAGE_LINE.c
# What is read of late usage beside its lines.
_OF_THE_BILL: Final = ("bill_id", "bill_version", "until", "ledger_at", "sources")


class CarriedLine(NamedTuple):
    """A line of a bill that was carried, and not taken back.

    Attributes:
        is_current: Whether it counts: it was carried for the calculation that the bill is of.
    """

    late_usage_id: str
    position: int
    line: LateLine
    is_current: bool


def carried_amounts(reader: Reader, bill: LateBill) -> dict[str, Decimal]:
    """What memos carry of a bill, by the keys of its lines, as far as the bill lacks it."""
    found: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for each in _read_carried(reader, bill):
            if each.is_current:
                found[each.line.key] += each.line.amount
    return dict(found)


def superseded_lines(reader: Reader, bill: LateBill) -> list[CarriedLine]:
    """What was carried for other calculations than the one that a bill is of; all if it is deleted."""
    return [each for each in _read_carried(reader, bill) if not each.is_current]


def _read_carried(reader: Reader, bill: LateBill) -> list[CarriedLine]:
    """What was carried of the bills of a key, and not taken back, the newest first."""
    table = LATE_USAGE.c
    query = (
        select(LATE_USAGE_LINE, *(table[name] for name in _OF_THE_BILL))
        .join(LATE_USAGE, table.id == _LINE.late_usage_id)
        .where(
            table.org == reader.org_id,
            *(table[name] == getattr(bill.key, name) for name in BillKey.COLUMNS),
            table.status == LateUsageStatus.CARRIED.value,
            _LINE.taken_back.is_(None),
        )
        .order_by(table.until.desc(), table.found.desc(), table.id.desc(), _LINE.position)
    )
    found, newest_correction = [], None
    rows = reader.connection.execute(query).all()
    for id_, group in groupby(rows, key=attrgetter("late_usage_id")):
        lines = list(group)
        with naming_damaged(id_, lines[0].bill_version):
            if newest_correction is None and is_correction(sources_from_text(lines[0].sources)):
                # Before revision 0037 it made all that was carried until then right, in one sum.
                newest_correction = lines[0]
            # It is current if it is about the calculation that the bill is of. A calculation that
            # came out the same has read more.
            row = newest_correction or lines[0]
            is_same = row.bill_id == bill.id and row.ledger_at in {None, bill.ledger_at}
            is_current = is_same and row.until > (bill.snapshot or 0)
            found += [
                CarriedLine(id_, each.position, line_from_row(each), is_current) for each in lines
            ]
    return found


def find_superseded(reader: Reader, account_ids: Collection[str] | None = None) -> list[str]:
    """The ids of bills of which memos carry what was late for another calculation, or that are deleted."""
    table = LATE_USAGE.c
    is_other = or_(
        BILL.c.id.is_(None),
        table.bill_id != BILL.c.id,
        table.until <= READ_UNTIL,
        table.ledger_at != func.coalesce(BILL.c.ledger_at, 0),
    )
    counts = and_(_LINE.late_usage_id == table.id, _LINE.taken_back.is_(None))
    query = (
        select(func.coalesce(BILL.c.id, table.bill_id).label("id"), table.account_id)
        .outerjoin(BILL, and_(table.org == BILL.c.org, *_same_key()))
        .outerjoin(JOB, JOB.c.id == BILL.c.job_id)
        .where(
            table.org == reader.org_id,
            table.status == LateUsageStatus.CARRIED.value,
            is_other,
            select(_LINE.position).where(counts).exists(),
        )
        .order_by(table.bill_date, "id")
    )
    rows = reader.connection.execute(query)
    is_any = account_ids is None
    return list(dict.fromkeys(r.id for r in rows if is_any or r.account_id in (account_ids or ())))


def find_deleted(reader: Reader, bill_id: str) -> LateBill | None:
    """A bill that had late usage and is deleted; None if it was made again, as another one or itself."""
    table = LATE_USAGE.c
    is_made_again = select(BILL.c.id).where(table.org == BILL.c.org, *_same_key()).exists()
    query = (
        select(LATE_USAGE)
        .where(table.org == reader.org_id, table.bill_id == bill_id, ~is_made_again)
        .order_by(table.until.desc(), table.found.desc(), table.id)
    )
    row = reader.connection.execute(query).first()
    if row is None:
        return None
    # Its memos say themselves which service period they are of.
    day = datetime.combine(row.bill_date, time(), UTC)
    return LateBill(
        id=row.bill_id,
        key=BillKey.of_row(row),
        period=row.period,
        currency=row.currency,
        total=ZERO,
        locked=False,
        snapshot=row.until,
        content_version=row.bill_version,
        calculation_id=None,
        ledger_at=row.ledger_at or 0,
        calculated=None,
        start=day,
        end=day,
    )


def _same_key() -> Iterator[ColumnElement[bool]]:
    return (LATE_USAGE.c[name] == BILL.c[name] for name in BillKey.COLUMNS)


def mark_taken_back(
    transaction: Transaction, lines: Sequence[CarriedLine], late_usage_id: str
) -> None:
    """Have lines count no more; those that take them back never do.

    Args:
        transaction: Where to.
        lines: What is taken back.
        late_usage_id: The late usage whose memos do that; if none have to, any of that of the lines.
    """
    own = _LINE.late_usage_id == late_usage_id
    for each in lines:
        own |= (_LINE.late_usage_id == each.late_usage_id) & (_LINE.position == each.position)
    one = update(LATE_USAGE_LINE).where(own)
    transaction.connection.execute(one.values(taken_back=late_usage_id))


def release_memos(transaction: Transaction, bill_id: str) -> None:
    """Before a bill is deleted: what its memos carry is to be carried anew.

    A memo that somebody deleted before stays what it is: nobody is to be charged for it. A memo and
    the one that takes it back need each other: if one of them goes, the other one counts again.
    """
    there = select(BILL_MEMO.c.id).where(BILL_MEMO.c.bill_id == bill_id)
    lost = (_LINE.memo_bill_id == bill_id) & _LINE.memo_id.in_(there)
    query = select(_LINE.late_usage_id, _LINE.key, _LINE.taken_back).where(lost)
    rows = transaction.connection.execute(query).all()
    for mark, key in sorted({(row.taken_back, row.key) for row in rows if row.taken_back}):
        those = (_LINE.taken_back == mark) & (_LINE.key == key)
        transaction.connection.execute(update(LATE_USAGE_LINE).where(those).values(taken_back=None))
    transaction.connection.execute(delete(LATE_USAGE_LINE).where(lost))
    for id_ in sorted({row.late_usage_id for row in rows}):
        _reopen(transaction, id_)


def _reopen(transaction: Transaction, id: str) -> None:
    """Have late usage decided again; what other memos of it carry stays carried."""
    [row] = transaction.connection.execute(select(LATE_USAGE).where(LATE_USAGE.c.id == id)).all()
    left = select(_LINE.position).where(_LINE.late_usage_id == id).limit(1)
    is_left = transaction.connection.execute(left).first() is not None
    other = _undecided_like(transaction, row)
    values: dict[str, Any] = {"status": LateUsageStatus.OPEN.value, "difference": None}
    values |= {"decided": None, "reason": None}
    if other is not None:
        # One row says all that is open about a bill: two would say it twice.
        sources = merge_sources(*(sources_from_text(each.sources) for each in (row, other)))
        values |= {"since": min(row.since, other.since), "sources": sources_to_text(sources)}
        _update(transaction, other.id, values)
        if not is_left:
            transaction.connection.execute(delete(LATE_USAGE).where(LATE_USAGE.c.id == id))
    elif is_left:
        again = {**row._asdict(), **values, "id": transaction.new_id(), "found": transaction.now}
        transaction.connection.execute(insert(LATE_USAGE), again)
    else:
        _update(transaction, id, values)


def _undecided_like(transaction: Transaction, row: Row[Any]) -> Row[Any] | None:
    """What is undecided about the same bill, and of the same kind."""
    is_like = is_correction(sources_from_text(row.sources))
    for each in read_undecided_rows(transaction, [row.bill_id]):
        if each.id != row.id and is_correction(sources_from_text(each.sources)) == is_like:
            return each
    return None


def _update(transaction: Transaction, id: str, values: dict[str, Any]) -> None:
    one = update(LATE_USAGE).where(LATE_USAGE.c.id == id)
    transaction.connection.execute(one.values(**values))
