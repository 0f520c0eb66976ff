"""Bills and their lines. What a bill means is not known here: only its identity and its content.

The functions take the reader or the transaction that `State` opens:

    with state.transaction(org_id, author) as transaction:
        bills.put(transaction, content)
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any, ClassVar, Final, Self

from sqlalchemy import ColumnElement, delete, insert, literal, or_, select, update

from meterlake.model import wire
from meterlake.model.accounts import Account
from meterlake.model.bill_requests import BillStatus
from meterlake.model.errors import Conflict, Locked, NotFound, StillReferenced
from meterlake.model.events import BILL as EVENTS
from meterlake.model.events import Event, change, data
from meterlake.model.ledger import BillRank, Consumption
from meterlake.model.lock_date import day_after
from meterlake.model.money import ZERO, exact, plain
from meterlake.stores.state.billing.invoice_numbers import InvoiceNumbers
from meterlake.stores.state.billing.ledger import repost
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memo_lines import KEY_PREFIX, MemoLine, memo_lines
from meterlake.stores.state.billing.outdated_bills import mark_outdated
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.past import stream_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE, BILL_MEMO
from meterlake.stores.state.core.transaction import Transaction

# Where a bill's body has the day after its last one.
_END: Final = "endDate"
# The columns of a row that a stored bill has as they are.
_ENVELOPE: Final = (
    *("id", "version", "locked"),
    *("created", "created_by", "modified", "modified_by"),
    *("approved", "approved_by", "locked_at", "locked_by"),
    *("calculated", "job_id", "invoice_number"),
)
# What a bill that waits for approval has to say of its last one.
NOT_APPROVED: Final = {"approved": None, "approved_by": None}
_TOTAL: Final = "billTotal"
_NO_LINES: Final[tuple[str | None, Iterator[Any]]] = (None, iter(()))


class PutOutcome(StrEnum):
    """What `put` did."""

    CREATED = "created"
    RECALCULATED = "recalculated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class BillKey:
    """What makes a bill the same bill when it is calculated again.

    Attributes:
        grouping_key: What tells bills of contracts apart; empty for all without a grouping key.
    """

    COLUMNS: ClassVar = ("account_id", "bill_date", "frequency", "interval", "grouping_key")

    account_id: str
    bill_date: date
    frequency: str
    interval: int
    grouping_key: str = ""

    @property
    def rank(self) -> BillRank:
        """Where it stands among the bills of its account."""
        return BillRank.of(self.bill_date, self.frequency, self.interval, self.grouping_key)

    @classmethod
    def of_row(cls, row: Any) -> Self:
        """The key of a row, or of anything with the attributes of one."""
        return cls(*(getattr(row, name) for name in cls.COLUMNS))


@dataclass(frozen=True, slots=True)
class LineContent:
    """One line: its stable key, its content, and what it was made from.

    The last two are objects, or the canonical JSON of them.
    """

    key: str
    body: Any
    pins: Any


@dataclass(frozen=True, slots=True)
class BillContent:
    """A bill as it was calculated.

    Attributes:
        key: Its identity.
        period: The name of what it bills: `2026-10`.
        currency: The code of the billing currency.
        total: The sum of its lines.
        body: Everything else that is shown; together with the lines it decides what is a change.
        pins: What it was made from (snapshot, versions); of no weight for what is a change.
        lines: In the order of the bill.
        draws: What it draws from commitments and balances.
        inputs: The digest of all that it was calculated from; None if nobody knows.
    """

    key: BillKey
    period: str
    currency: str
    total: Decimal
    body: Mapping[str, Any]
    pins: Mapping[str, Any]
    lines: Sequence[LineContent]
    draws: Sequence[Consumption] = ()
    inputs: str | None = field(default=None, compare=False)

    def ends_until(self, day: date | None) -> bool:
        """Whether its service period ends on or before a day; both ends are exclusive."""
        end = self.body.get(_END)
        return day is not None and end is not None and str(end) <= day.isoformat()


@dataclass(frozen=True, slots=True)
class StoredBill:
    """A bill with its envelope; instants are aware UTC.

    Attributes:
        locked: Whether a person locked this very bill; the lock date of the organization may
            close it as well.
        calculated: When it was calculated last, even if nothing differed.
        job_id: The job that did it.
        invoice_number: Its sequential number, given at its creation and never again.
    """

    id: str
    version: int
    status: BillStatus
    locked: bool
    content: BillContent
    created: datetime
    created_by: str
    modified: datetime
    modified_by: str
    approved: datetime | None = None
    approved_by: str | None = None
    locked_at: datetime | None = None
    locked_by: str | None = None
    invoice_number: str | None = None
    # A calculation that changes nothing leaves the same bill.
    calculated: datetime | None = field(default=None, compare=False)
    job_id: str | None = field(default=None, compare=False)

    def to_wire(self) -> dict[str, Any]:
        """The bill as the wire shows it, without its lines and what it was made from."""
        content = self.content
        number = self.invoice_number
        return {
            **content.body,
            **({} if number is None else {"sequentialInvoiceNumber": number}),
            "id": self.id,
            "version": self.version,
            "accountId": content.key.account_id,
            "billDate": content.key.bill_date,
            "billingFrequency": content.key.frequency,
            "billFrequencyInterval": content.key.interval,
            "period": content.period,
            "currency": content.currency,
            "billTotal": content.total,
            "status": self.status.value,
            "locked": self.locked,
            "createdBy": self.created_by,
            "dtCreated": self.created,
            "lastModifiedBy": self.modified_by,
            "dtLastModified": self.modified,
        }

    def life_to_wire(self) -> dict[str, Any]:
        """When it was calculated, approved and locked, and by whom; None of what never happened."""
        return {
            "createdDate": self.created,
            "lastCalculatedDate": self.calculated or self.created,
            "billJobId": self.job_id,
            "dtApproved": self.approved,
            "approvedBy": self.approved_by,
            "dtLocked": self.locked_at,
            "lockedBy": self.locked_by,
        }


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
    changed = _rewrite(transaction, stored, content, calculated=transaction.now)
    return changed, PutOutcome.RECALCULATED


def _rewrite(
    transaction: Transaction, stored: StoredBill, content: BillContent, **more: Any
) -> StoredBill:
    """Replace what a bill says; it waits for approval again."""
    transaction.connection.execute(delete(BILL_LINE).where(BILL_LINE.c.bill_id == stored.id))
    values = {**_columns(content), "status": BillStatus.PENDING.value, **NOT_APPROVED, **more}
    values["inputs"] = None
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


def of_accounts(
    reader: Reader, bill_dates: tuple[date, date], account_ids: Collection[str]
) -> Iterator[StoredBill]:
    """The bills of a few accounts with some bill dates, from the first to the last, by bill date."""
    order = (BILL.c.bill_date, BILL.c.account_id, BILL.c.id)
    query = _bills(reader).where(*with_bill_dates(*bill_dates)).order_by(*order)
    for row in reader.connection.execute(query).all():
        if row.account_id in account_ids:
            yield _read_stored(reader, row)


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
    return _change(transaction, stored, values)


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
        raise Conflict(f"bill {id!r} is {stored.status}; only an approved bill can be locked")
    values = {"locked": True, "locked_at": transaction.now, "locked_by": transaction.author}
    return _change(transaction, stored, values)


def pending_until(reader: Reader, day: date) -> str | None:
    """The id of a PENDING bill whose last day is a day or one before; None if there is none."""
    query = select(BILL.c.id).where(
        BILL.c.org == reader.org_id,
        BILL.c.status == BillStatus.PENDING.value,
        member_text(BILL.c.body, literal(_END)) <= day_after(day).isoformat(),
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


def _create(transaction: Transaction, content: BillContent) -> StoredBill:
    bill_id = transaction.new_id()
    numbers = InvoiceNumbers(transaction)
    row = {
        **_columns(content),
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


def note_event(transaction: Transaction, new: StoredBill | None, old: StoredBill | None) -> None:
    """Note the event of a bill that was created (no `old`), changed or deleted (no `new`)."""
    bill = new or old
    assert bill is not None
    documents = [_bill_document(transaction, each) for each in (new, old)]
    _add_event(transaction, bill.id, bill.content.key.account_id, documents)


def note_row_event(
    transaction: Transaction, new: Mapping[str, Any], old: Mapping[str, Any] | None
) -> None:
    """Note the same of rows as they are stored: what they show is not read and written again."""
    documents = [each and _row_document(transaction, each) for each in (new, old)]
    _add_event(transaction, new["id"], new["account_id"], documents)


def _add_event(
    transaction: Transaction,
    bill_id: str,
    account_id: str,
    documents: Sequence[Mapping[str, Any] | None],
) -> None:
    """Note what became of a bill: its document as it is now, and as it was."""
    new, old = documents
    transaction.journal.add(
        Event(
            name=change(EVENTS, new, old),
            kind="Bill",
            resource_id=bill_id,
            data=data(new, old),
            account_id=account_id,
        )
    )


def _row_document(transaction: Transaction, row: Mapping[str, Any]) -> dict[str, Any]:
    """What `_bill_document` shows of the bill of a row."""
    envelope: dict[str, Any] = {name: row.get(name) for name in _ENVELOPE}
    stored = StoredBill(
        **envelope,
        status=BillStatus(row["status"]),
        content=BillContent(
            key=BillKey(*(row[name] for name in BillKey.COLUMNS)),
            period=row["period"],
            currency=row["currency"],
            total=Decimal(row["total"]),
            body=wire.shallow(row["body"]),
            pins={},
            lines=(),
        ),
    )
    return _event_document(transaction, stored)


def _bill_document(transaction: Transaction, bill: StoredBill | None) -> dict[str, Any] | None:
    return None if bill is None else _event_document(transaction, bill)


def _event_document(transaction: Transaction, bill: StoredBill) -> dict[str, Any]:
    found = {**bill.to_wire(), **bill.life_to_wire(), "orgId": transaction.org_id}
    return {name: value for name, value in found.items() if value is not None}


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


def line_of(row: Any) -> LineContent:
    """A line from its row."""
    return LineContent(row.key, wire.loads(row.body), wire.loads(row.pins))


def join_lines(row: Any, lines: Sequence[LineContent]) -> StoredBill:
    """A bill from its row, or from anything with the attributes of one, and its lines."""
    key = BillKey.of_row(row)
    body, pins = wire.loads(row.body), wire.loads(row.pins)
    content = BillContent(key, row.period, row.currency, Decimal(row.total), body, pins, lines)
    envelope = {name: getattr(row, name) for name in _ENVELOPE}
    return StoredBill(status=BillStatus(row.status), content=content, **envelope)
