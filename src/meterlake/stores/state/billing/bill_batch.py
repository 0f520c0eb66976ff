"""Many bills at once: a run that bills every account stores them by the hundred, not one by one.

What becomes of each bill is the same as with `bills.put`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import islice
from typing import Any, Final

from sqlalchemy import Row, bindparam, delete, select, update

from meterlake.model import wire
from meterlake.model.money import plain
from meterlake.stores.state.billing.bills import (
    BillContent,
    BillKey,
    BillStatus,
    lock_date,
    note_row_event,
    with_bill_dates,
)
from meterlake.stores.state.core.many_rows import insert_rows, large_cache
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE
from meterlake.stores.state.core.transaction import Transaction

# Bills of one statement; keeps its parameters below what every database takes.
CHUNK: Final = 400


class BillOutcome(StrEnum):
    """What became of a bill."""

    CREATED = "created"
    UPDATED = "updated"
    APPROVED = "approved"
    UNCHANGED = "unchanged"
    LOCKED = "locked"


@dataclass(frozen=True, slots=True)
class BatchedBill:
    """A bill after the run: its id and what became of it.

    Attributes:
        bill_id: None if there is no bill, and the lock date allows none.
    """

    bill_id: str | None
    account_id: str
    stored: BillOutcome
    status: BillStatus


def billed_keys(reader: Reader, first: date, last: date) -> list[BillKey]:
    """The bills that there are of some bill dates, the last one included."""
    query = select(BILL.c.account_id, BILL.c.bill_date, BILL.c.frequency, BILL.c.interval).where(
        BILL.c.org == reader.org_id, *with_bill_dates(first, last)
    )
    return [BillKey(*row) for row in reader.connection.execute(query)]


def put_all(
    transaction: Transaction, contents: Sequence[BillContent], status: BillStatus
) -> list[BatchedBill]:
    """Store bills as they were calculated: new, again, or not at all if nothing differs.

    A bill that differs is at its next version. A locked one is left alone, and so is one that ends
    on or before the lock date of the organization.

    Args:
        transaction: Where to.
        contents: Bills, no two of which are the same.
        status: What new and recalculated bills are; APPROVED approves the unchanged ones too.

    Returns:
        What became of each bill, in their order.
    """
    closed_until = lock_date(transaction)
    with large_cache(transaction.connection):
        return [
            outcome
            for chunk in _chunks(contents)
            for outcome in _Chunk(
                transaction, [_Texts(each, closed_until) for each in chunk], status
            ).put()
        ]


def _chunks(contents: Sequence[BillContent]) -> Iterator[list[BillContent]]:
    rest = iter(contents)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


class _Texts:
    """A bill as the columns of its tables."""

    def __init__(self, content: BillContent, closed_until: date | None) -> None:
        self.key = content.key
        self.closed = content.ends_until(closed_until)
        self.made_from = {
            "pins": wire.dumps_sorted(dict(content.pins)),
            "snapshot": content.pins.get("snapshot"),
        }
        self.shown = {
            "period": content.period,
            "currency": content.currency,
            "total": plain(content.total),
            "body": wire.dumps_sorted(dict(content.body)),
        }
        self.lines = [(line.key, wire.dumps_sorted(line.body)) for line in content.lines]
        self.line_pins = [wire.dumps_sorted(line.pins) for line in content.lines]

    def rows(self, bill_id: str) -> Iterator[dict[str, Any]]:
        for sequence, ((key, body), pins) in enumerate(
            zip(self.lines, self.line_pins, strict=True), start=1
        ):
            yield {
                "bill_id": bill_id,
                "sequence": sequence,
                "key": key,
                "body": body,
                "pins": pins,
            }


class _Chunk:
    """Bills that are looked up, compared and written together."""

    def __init__(
        self, transaction: Transaction, bills: Sequence[_Texts], status: BillStatus
    ) -> None:
        self.transaction = transaction
        self.bills = bills
        self.status = status
        self.new: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []
        self.approved: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.before: dict[str, Row[Any]] = {}

    def put(self) -> list[BatchedBill]:
        stored = self._read_stored()
        lines = self._stored_lines([row.id for row in stored.values()])
        outcomes = [self._decide(bill, stored.get(bill.key), lines) for bill in self.bills]
        self._write()
        self._note_events()
        return outcomes

    def _read_stored(self) -> dict[BillKey, Row[Any]]:
        keys = [bill.key for bill in self.bills]
        query = select(BILL).where(
            BILL.c.org == self.transaction.org_id,
            BILL.c.bill_date.in_({key.bill_date for key in keys}),
            BILL.c.account_id.in_({key.account_id for key in keys}),
        )
        rows = self.transaction.connection.execute(query)
        return {BillKey(r.account_id, r.bill_date, r.frequency, r.interval): r for r in rows}

    def _stored_lines(self, ids: list[str]) -> dict[str, list[tuple[str, str]]]:
        lines = defaultdict(list)
        query = (
            select(BILL_LINE.c.bill_id, BILL_LINE.c.key, BILL_LINE.c.body)
            .where(BILL_LINE.c.bill_id.in_(ids))
            .order_by(BILL_LINE.c.bill_id, BILL_LINE.c.sequence)
        )
        for row in self.transaction.connection.execute(query) if ids else ():
            lines[row.bill_id].append((row.key, row.body))
        return lines

    def _decide(
        self, bill: _Texts, row: Row[Any] | None, lines: dict[str, list[tuple[str, str]]]
    ) -> BatchedBill:
        if row is None:
            if bill.closed:
                return BatchedBill(
                    None, bill.key.account_id, BillOutcome.LOCKED, BillStatus.PENDING
                )
            return self._create(bill)
        locked = row.locked or bill.closed
        same = lines.get(row.id, []) == bill.lines and all(
            getattr(row, name) == text for name, text in bill.shown.items()
        )
        status = BillStatus(row.status)
        if locked and not same:
            return BatchedBill(row.id, row.account_id, BillOutcome.LOCKED, status)
        if same and (locked or self.status in {status, BillStatus.PENDING}):
            return BatchedBill(row.id, row.account_id, BillOutcome.UNCHANGED, status)
        return self._approve(row) if same else self._update(bill, row)

    def _create(self, bill: _Texts) -> BatchedBill:
        bill_id = self.transaction.new_id()
        row: dict[str, Any] = {
            **bill.shown,
            **bill.made_from,
            "id": bill_id,
            "org": self.transaction.org_id,
            "account_id": bill.key.account_id,
            "bill_date": bill.key.bill_date,
            "frequency": bill.key.frequency,
            "interval": bill.key.interval,
            "version": 1,
            "status": self.status.value,
            "locked": False,
            "created": self.transaction.now,
            "created_by": self.transaction.author,
            "modified": self.transaction.now,
            "modified_by": self.transaction.author,
        }
        self.new.append(row)
        self.lines += bill.rows(bill_id)
        return BatchedBill(bill_id, bill.key.account_id, BillOutcome.CREATED, self.status)

    def _update(self, bill: _Texts, row: Row[Any]) -> BatchedBill:
        self.updated.append({**bill.shown, **bill.made_from, **self._next_version(row)})
        self.lines += bill.rows(row.id)
        return BatchedBill(row.id, row.account_id, BillOutcome.UPDATED, self.status)

    def _approve(self, row: Row[Any]) -> BatchedBill:
        self.approved.append(self._next_version(row))
        return BatchedBill(row.id, row.account_id, BillOutcome.APPROVED, self.status)

    def _next_version(self, row: Row[Any]) -> dict[str, Any]:
        self.before[row.id] = row
        return {
            "bill_id": row.id,
            "version": row.version + 1,
            "status": self.status.value,
            "modified": max(self.transaction.now, row.modified),
            "modified_by": self.transaction.author,
        }

    def _write(self) -> None:
        connection = self.transaction.connection
        insert_rows(connection, BILL, self.new)
        for rows in (self.updated, self.approved):
            if rows:
                names = [name for name in rows[0] if name != "bill_id"]
                values: dict[str, Any] = {name: bindparam(name) for name in names}
                one = update(BILL).where(BILL.c.id == bindparam("bill_id"))
                connection.execute(one.values(values), rows)
        if self.updated:
            ids = [row["bill_id"] for row in self.updated]
            connection.execute(delete(BILL_LINE).where(BILL_LINE.c.bill_id.in_(ids)))
        insert_rows(connection, BILL_LINE, self.lines)

    def _note_events(self) -> None:
        for row in self.new:
            note_row_event(self.transaction, row, None)
        for values in (*self.updated, *self.approved):
            before = self.before[values["bill_id"]]._asdict()
            note_row_event(self.transaction, before | values, before)
        # A run bills many accounts: their events do not wait for its end in memory.
        self.transaction.journal.write()
