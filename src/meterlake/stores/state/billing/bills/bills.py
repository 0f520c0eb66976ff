"""Bills in State: stored, approved, locked, deleted. What a bill means is not known here.

The functions take the reader or the transaction that `State` opens:

    with state.transaction(org_id, author) as transaction:
        bills.put(transaction, content)
"""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, insert, literal, or_, select, update

from meterlake.model.bills.billing_dates import day_after
from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, Locked, NotFound, StillReferenced
from meterlake.model.values import wire
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.stores.state.billing.bills.events import note_event
from meterlake.stores.state.billing.bills.invoice_numbers import InvoiceNumbers
from meterlake.stores.state.billing.bills.versions import keep_versions
from meterlake.stores.state.billing.credits.ledger import repost
from meterlake.stores.state.billing.late_usage.carried import release_memos
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.memos import KEY_PREFIX, MemoLine, memo_lines
from meterlake.stores.state.billing.outdated_bills import mark_outdated
from meterlake.stores.state.billing.statements.files import (
    forget_statements,
    mark_statements_outdated,
)
from meterlake.stores.state.billing.statements.jobs import ApprovedBill, order_statements
from meterlake.stores.state.billing.stored_bills import (
    BODY_END,
    BillContent,
    BillKey,
    LineContent,
    StoredBill,
    join_lines,
    line_of,
)
from meterlake.stores.state.core.entity_history import stream_rows
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE, BILL_MEMO
from meterlake.stores.state.core.transaction import Transaction

# What a bill that waits for approval has to say of its last one.
NOT_APPROVED: Final = {"approved": None, "approved_by": None}
_TOTAL: Final = "billTotal"
_NO_LINES: Final[tuple[str | None, Iterator[Any]]] = (None, iter(()))


class PutOutcome(StrEnum):
    """What `put` did."""

    CREATED = "created"
    RECALCULATED = "recalculated"
    UNCHANGED = "unchanged"


def find(reader: Reader, content: BillContent) -> StoredBill | None:
    """The bill that there is where another one is calculated."""
    row = reader.connection.execute(_bills(reader).where(*_same(content.key))).first()
    return None if row is None else _read_stored(reader, row)


def put(transaction: Transaction, content: BillContent) -> tuple[StoredBill, PutOutcome]:
    """Store a bill as it was calculated: new, again, or not at all if nothing differs.

    A recalculated bill is at its next version and PENDING again.

    Raises:
        Locked: The stored bill differs and is locked, or it ends on or before the lock date.
    """
    row = transaction.connection.execute(_bills(transaction).where(*_same(content.key))).first()
    if row is None:
        if content.ends_until(closed_before(transaction)):
            raise Locked("bill period", content.period)
        return _create(transaction, content), PutOutcome.CREATED
    stored = _read_stored(transaction, row)
    content = with_memos(content, memo_lines(transaction, [stored.id]).get(stored.id, ()))
    if _fingerprint(stored.content) == _fingerprint(content):
        return stored, PutOutcome.UNCHANGED
    _refuse_locked(transaction, stored)
    made = {"calculated": transaction.now, **_calculation_columns(transaction, content)}
    changed = _rewrite(transaction, stored, content, **made)
    return changed, PutOutcome.RECALCULATED


def _rewrite(
    transaction: Transaction, stored: StoredBill, content: BillContent, **more: Any
) -> StoredBill:
    """Replace what a bill says; it waits for approval again."""
    keep_versions(transaction, [stored.id])
    transaction.connection.execute(delete(BILL_LINE).where(BILL_LINE.c.bill_id == stored.id))
    values = {**_columns(content), "status": BillStatus.PENDING.value, **NOT_APPROVED, **more}
    values |= {"inputs": None, "began": transaction.number, "content_version": stored.version + 1}
    _write_lines(transaction, stored.id, content)
    return _change(transaction, stored, values)


def with_memos(content: BillContent, memos: Sequence[MemoLine]) -> BillContent:
    """A calculated bill with the lines that people put on it, behind its own."""
    if not memos:
        return content
    lines = list(content.lines)
    for number, memo in enumerate(memos, start=len(lines) + 1):
        lines.append(LineContent(memo.key, {**memo.body, "sequenceNumber": number}, {}))
    with exact():
        total = sum((memo.amount for memo in memos), content.total)
    body = {**content.body, _TOTAL: total} if _TOTAL in content.body else content.body
    return replace(content, lines=lines, total=total, body=body)


def renew_memos(transaction: Transaction, stored: StoredBill) -> StoredBill:
    """Show the lines of people on a bill as they are now; it waits for approval again.

    Args:
        transaction: Where the lines were changed.
        stored: The bill as it was, which is not locked.
    """
    lines = stored.content.lines
    calculated = [line for line in lines if not line.key.startswith(KEY_PREFIX)]
    with exact():
        total = sum((Decimal(each.body["convertedSubtotal"]) for each in calculated), ZERO)
    body = stored.content.body
    own = replace(
        stored.content,
        lines=calculated,
        total=total,
        body={**body, _TOTAL: total} if _TOTAL in body else body,
    )
    memos = memo_lines(transaction, [stored.id]).get(stored.id, ())
    mark_statements_outdated(transaction, stored.id)
    return _rewrite(transaction, stored, with_memos(own, memos))


def open_bill(transaction: Transaction, id: str) -> StoredBill:
    """One bill that may still be changed.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked, or it ends on or before the lock date.
    """
    stored = get(transaction, id)
    _refuse_locked(transaction, stored)
    return stored


def remove(transaction: Transaction, id: str) -> StoredBill:
    """Delete a bill for ever, with its lines; its sequential number is not given again.

    What it drew from balances and commitments goes back to them.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked, or it ends on or before the lock date.
    """
    stored = open_bill(transaction, id)
    if repost(transaction, id, stored.version, ()):
        mark_outdated(transaction, {stored.content.key.account_id: stored.content.key.rank})
    keep_versions(transaction, [id])
    release_memos(transaction, id)
    forget_statements(transaction, id)
    for table in (BILL_LINE, BILL_MEMO):
        transaction.connection.execute(delete(table).where(table.c.bill_id == id))
    transaction.connection.execute(delete(BILL).where(BILL.c.id == id))
    note_event(transaction, None, stored)
    return stored


def get(reader: Reader, id: str) -> StoredBill:
    """One bill.

    Raises:
        NotFound: There is none.
    """
    row = reader.connection.execute(_bills(reader).where(BILL.c.id == id)).first()
    if row is None:
        raise NotFound("bill", id)
    return _read_stored(reader, row)


def of_period(reader: Reader, period: str | None = None) -> list[StoredBill]:
    """The bills of a period such as `2026-10`, or of all, by bill date and account."""
    return list(one_by_one(reader, period))


def one_by_one(
    reader: Reader,
    period: str | None = None,
    since: datetime | None = None,
    also: ColumnElement[bool] | None = None,
) -> Iterator[StoredBill]:
    """The same without having them all in memory.

    Perhaps only those that changed from then on, and `also` others that are taken for changed.
    """
    conditions = [BILL.c.org == reader.org_id]
    if period is not None:
        conditions.append(BILL.c.period == period)
    if since is not None:
        changed = BILL.c.modified >= since
        conditions.append(changed if also is None else or_(changed, also))
    order = (BILL.c.bill_date, BILL.c.account_id, BILL.c.id)
    heads = select(BILL).where(*conditions).order_by(*order)
    lines = select(BILL_LINE).join(BILL).where(*conditions)
    lines = lines.order_by(*order, BILL_LINE.c.sequence)
    with (
        closing(stream_rows(reader, heads)) as rows,
        closing(stream_rows(reader, lines)) as of_bills,
    ):
        grouped = groupby(of_bills, key=attrgetter("bill_id"))
        bill_id, group = next(grouped, _NO_LINES)
        for row in rows:
            found: list[LineContent] = []
            if row.id == bill_id:
                found = [line_of(line) for line in group]
                bill_id, group = next(grouped, _NO_LINES)
            yield join_lines(row, found)


def with_bill_dates(first: date, last: date) -> tuple[ColumnElement[bool], ...]:
    """The conditions that bills have some bill dates, the last one included."""
    # An index has the month of the last day, which is the day before the bill date.
    start, end = (f"{day - timedelta(days=1):%Y-%m}" for day in (first, last))
    return BILL.c.period.between(start, end), BILL.c.bill_date.between(first, last)


def set_status(transaction: Transaction, id: str, status: BillStatus) -> StoredBill:
    """Approve a bill, or take the approval back.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked, or it ends on or before the lock date.
    """
    stored = open_bill(transaction, id)
    if stored.status is status:
        return stored
    values = {"status": status.value, **approval(transaction, status)}
    changed = _change(transaction, stored, values)
    if status is BillStatus.APPROVED:
        _order_statement(transaction, changed)
    return changed


def _order_statement(transaction: Transaction, bill: StoredBill) -> None:
    order_statements(transaction, [ApprovedBill(bill.id, bill.content.key.account_id)])


def approval(transaction: Transaction, status: BillStatus) -> dict[str, Any]:
    """The columns that say who approved a bill that gets a status now, and when."""
    if status is BillStatus.PENDING:
        return dict(NOT_APPROVED)
    return {"approved": transaction.now, "approved_by": transaction.author}


def lock(transaction: Transaction, id: str) -> StoredBill:
    """Lock an approved bill for ever.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked already, or it ends on or before the lock date.
        Conflict: It is not approved.
    """
    stored = open_bill(transaction, id)
    if stored.status is not BillStatus.APPROVED:
        raise Conflict(
            f"bill {id!r} is {stored.status}; only an approved bill can be locked: approve it first"
        )
    values = {"locked": True, "locked_at": transaction.now, "locked_by": transaction.author}
    values["locked_in"] = transaction.number
    changed = _change(transaction, stored, values)
    _order_statement(transaction, changed)
    return changed


def pending_until(reader: Reader, day: date) -> str | None:
    """The id of a PENDING bill whose last day is a day or one before; None if there is none."""
    query = select(BILL.c.id).where(
        BILL.c.org == reader.org_id,
        BILL.c.status == BillStatus.PENDING.value,
        member_text(BILL.c.body, literal(BODY_END)) <= day_after(day).isoformat(),
    )
    found: str | None = reader.connection.execute(query.order_by(BILL.c.id).limit(1)).scalar()
    return found


def refuse_billed(reader: Reader, account_id: str) -> None:
    """Refuse to let go of an account that there are bills of.

    Raises:
        StillReferenced: There is such a bill.
    """
    query = select(BILL.c.id).where(BILL.c.org == reader.org_id, BILL.c.account_id == account_id)
    found = reader.connection.execute(query.limit(1)).scalar()
    if found is not None:
        raise StillReferenced(Account.__name__, account_id, f"bill {found!r}")


def _bills(reader: Reader) -> Any:
    return select(BILL).where(BILL.c.org == reader.org_id)


def _same(key: BillKey) -> Iterator[Any]:
    yield BILL.c.account_id == key.account_id
    yield BILL.c.bill_date == key.bill_date
    yield BILL.c.frequency == key.frequency
    yield BILL.c.interval == key.interval
    yield BILL.c.grouping_key == key.grouping_key


def _refuse_locked(reader: Reader, stored: StoredBill) -> None:
    if stored.locked or stored.content.ends_until(closed_before(reader)):
        raise Locked("bill", stored.id)


def _fingerprint(content: BillContent) -> str:
    lines = [[line.key, line.body] for line in content.lines]
    return wire.dumps_sorted([content.currency, content.total, dict(content.body), lines])


def _columns(content: BillContent) -> dict[str, Any]:
    return {
        "period": content.period,
        "currency": content.currency,
        "total": plain(content.total),
        "body": wire.dumps_sorted(dict(content.body)),
        "pins": wire.dumps_sorted(dict(content.pins)),
        "snapshot": content.pins.get("snapshot"),
    }


def _calculation_columns(transaction: Transaction, content: BillContent) -> dict[str, Any]:
    """The calculation of a content, and the last transaction that its ledger has."""
    return {"calculation_id": content.calculation_id, "ledger_at": transaction.number - 1}


def _create(transaction: Transaction, content: BillContent) -> StoredBill:
    bill_id = transaction.new_id()
    numbers = InvoiceNumbers(transaction)
    row = {
        **_columns(content),
        **_calculation_columns(transaction, content),
        "began": transaction.number,
        "id": bill_id,
        "calculated": transaction.now,
        "invoice_number": numbers.take(),
        "org": transaction.org_id,
        "account_id": content.key.account_id,
        "bill_date": content.key.bill_date,
        "frequency": content.key.frequency,
        "interval": content.key.interval,
        "grouping_key": content.key.grouping_key,
        "version": 1,
        "status": BillStatus.PENDING.value,
        "locked": False,
        "created": transaction.now,
        "created_by": transaction.author,
        "modified": transaction.now,
        "modified_by": transaction.author,
    }
    transaction.connection.execute(insert(BILL), row)
    numbers.save()
    _write_lines(transaction, bill_id, content)
    created = get(transaction, bill_id)
    note_event(transaction, created, None)
    return created


def _change(transaction: Transaction, stored: StoredBill, values: dict[str, Any]) -> StoredBill:
    envelope = {
        "version": stored.version + 1,
        "modified": max(transaction.now, stored.modified),
        "modified_by": transaction.author,
    }
    statement = update(BILL).where(BILL.c.id == stored.id)
    transaction.connection.execute(statement.values(**values, **envelope))
    changed = get(transaction, stored.id)
    note_event(transaction, changed, stored)
    return changed


def _write_lines(transaction: Transaction, bill_id: str, content: BillContent) -> None:
    rows = [
        {
            "bill_id": bill_id,
            "sequence": sequence,
            "key": line.key,
            "body": wire.dumps_sorted(line.body),
            "pins": wire.dumps_sorted(line.pins),
        }
        for sequence, line in enumerate(content.lines, start=1)
    ]
    if rows:
        transaction.connection.execute(insert(BILL_LINE), rows)


def _read_stored(reader: Reader, row: Any) -> StoredBill:
    query = select(BILL_LINE).where(BILL_LINE.c.bill_id == row.id).order_by(BILL_LINE.c.sequence)
    return join_lines(row, [line_of(line) for line in reader.connection.execute(query)])
