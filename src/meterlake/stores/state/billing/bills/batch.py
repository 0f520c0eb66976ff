"""Many bills at once: a run that bills every account stores them by the hundred, not one by one.

What becomes of each bill is the same as with `bills.put`.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from pydantic.alias_generators import to_camel
from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, literal, or_, select, update

from meterlake.model.bills.ledger import BillRank, Posting
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unchanged_bill import LeftDifference, left_differences
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.organization import PERIOD_SETTINGS
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.stores.state.billing.bills.bills import approval, with_bill_dates, with_memos
from meterlake.stores.state.billing.bills.calculated import inputs_column
from meterlake.stores.state.billing.bills.events import note_row_event
from meterlake.stores.state.billing.bills.invoice_numbers import InvoiceNumbers
from meterlake.stores.state.billing.bills.versions import keep_versions
from meterlake.stores.state.billing.credits.ledger import (
    BillConsumption,
    NewPosting,
    consumption_of,
    corrections,
    post,
)
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.memos import memo_lines
from meterlake.stores.state.billing.outdated_bills import mark_outdated
from meterlake.stores.state.billing.statements.jobs import ApprovedBill, order_statements
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows, large_cache
from meterlake.stores.state.core.reader import DamagedRow, Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE
from meterlake.stores.state.core.transaction import Transaction

# What a job may say of periods, as bills pin it.
_OF_PERIODS: Final = tuple(map(to_camel, PERIOD_SETTINGS))


class BillOutcome(StrEnum):
    """What became of a bill."""

    CREATED = "created"
    UPDATED = "updated"
    APPROVED = "approved"
    UNCHANGED = "unchanged"
    LOCKED = "locked"
    # Approved, and left alone by a job that was not told to change such bills.
    KEPT = "kept"
    # Not approved, because nobody was shown it as it is.
    NOT_SHOWN = "not shown"


# What becomes APPROVED in a run that approves.
_APPROVING: Final = {BillOutcome.CREATED, BillOutcome.UPDATED, BillOutcome.APPROVED}


class CalculatedTotal(NamedTuple):
    """What a bill would come to that was left alone, in which currency."""

    total: Decimal
    currency: str


@dataclass(frozen=True, slots=True)
class BatchedBill:
    """A bill after the run, as it is stored: its id, and what became of it.

    Attributes:
        bill_id: None if there is no bill, because the lock date or another bill allows none.
        version: 0 if there is no bill.
        total: What it comes to, with the lines that people put on it.
        lines: How many lines that are.
        would_be: What it would come to; None if it is what was calculated.
        differs: What of it would be otherwise then.
        billed_by: The bill that has the same charges: one is consolidated, the other is not.
    """

    bill_id: str | None
    account_id: str
    stored: BillOutcome
    status: BillStatus
    total: Decimal
    currency: str
    lines: int
    version: int = 0
    would_be: CalculatedTotal | None = None
    differs: tuple[LeftDifference, ...] = ()
    billed_by: str | None = None


def billed_keys(
    reader: Reader, first: date, last: date, open_day: date | None = None
) -> list[BillKey]:
    """The bills that there are of some bill dates, and those that are open on a day.

    Args:
        reader: Where from.
        first: The first bill date.
        last: The last one, included.
        open_day: Its bills are there, too, but for those of jobs that had other periods.
    """
    columns = [BILL.c[name] for name in BillKey.COLUMNS]
    query = select(*columns).where(BILL.c.org == reader.org_id, *with_bill_dates(first, last))
    found = [BillKey(*row) for row in reader.connection.execute(query)]
    if open_day is None:
        return found
    opened = select(*columns).where(BILL.c.org == reader.org_id, *_is_open(open_day))
    return list(
        dict.fromkeys([*found, *(BillKey(*row) for row in reader.connection.execute(opened))])
    )


def damaged_bill(reader: Reader, key: BillKey, why: str) -> DamagedRow:
    """What is said of a bill whose key cannot be what anybody wrote."""
    same = (BILL.c[name] == getattr(key, name) for name in BillKey.COLUMNS)
    query = select(BILL.c.id, BILL.c.version).where(BILL.c.org == reader.org_id, *same)
    row = reader.connection.execute(query).one()
    return DamagedRow("Bill", row.id, row.version, why)


def locked_keys(reader: Reader, keys: Collection[BillKey]) -> list[BillKey]:
    """Those of bills that people have locked."""
    if not keys:
        return []
    columns = [BILL.c[name] for name in BillKey.COLUMNS]
    dates = (min(each.bill_date for each in keys), max(each.bill_date for each in keys))
    query = select(*columns).where(
        BILL.c.org == reader.org_id, BILL.c.bill_date.between(*dates), BILL.c.locked
    )
    return [BillKey(*row) for row in reader.connection.execute(query)]


def _is_open(day: date) -> Iterator[ColumnElement[bool]]:
    """The conditions that a day is in the period of a bill, which is one of the organization's."""
    yield BILL.c.period >= f"{day:%Y-%m}"
    yield BILL.c.bill_date > day
    yield member_text(BILL.c.body, literal("startDate")) <= day.isoformat()
    own = member_text(BILL.c.pins, literal("overrides"))
    # Most bills have none, and of others nothing is looked up.
    yield or_(
        own.is_(None), and_(*(member_text(own, literal(each)).is_(None) for each in _OF_PERIODS))
    )


def put_all(
    transaction: Transaction,
    contents: Sequence[BillContent],
    status: BillStatus,
    job_id: str | None = None,
    *,
    keep_approved: bool = False,
) -> list[BatchedBill]:
    """Store bills as they were calculated: new, again, or not at all if nothing differs.

    A bill that differs is at its next version. A locked one is left alone, and so is one that ends
    on or before the lock date of the organization.

    Args:
        transaction: Where to.
        contents: Bills, no two of which are the same.
        status: What new and recalculated bills are; APPROVED approves the unchanged ones too.
        job_id: The job that calculated them.
        keep_approved: Whether approved ones are left alone that differ.

    Returns:
        What became of each bill, in their order.
    """
    closed_until, numbers = closed_before(transaction), InvoiceNumbers(transaction)
    run = _Run(transaction, status, job_id, closed_until, numbers, keep_approved)
    with large_cache(transaction.connection):
        found = [outcome for chunk in chunks_of(contents) for outcome in _Chunk(run, chunk).put()]
    run.numbers.save()
    made = {each.bill_id for each in found if each.bill_id is not None}
    mark_outdated(transaction, run.changed, made, job_id)
    if status is BillStatus.APPROVED:
        approved = [
            ApprovedBill(each.bill_id, each.account_id)
            for each in found
            if each.bill_id is not None and each.stored in _APPROVING
        ]
        order_statements(transaction, approved)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """What is the same for all bills."""

    transaction: Transaction
    status: BillStatus
    job_id: str | None
    closed_until: date | None
    numbers: InvoiceNumbers
    keep_approved: bool
    # The first bill of each account that draws something else than before.
    changed: dict[str, BillRank] = field(default_factory=dict)


class BillColumns:
    """A bill as the columns of its tables."""

    def __init__(self, content: BillContent, closed_until: date | None = None) -> None:
        self.key = content.key
        self.total = content.total
        self.closed = content.ends_until(closed_until)
        self.made_from = {
            "pins": wire.dumps_sorted(dict(content.pins)),
            "snapshot": content.pins.get("snapshot"),
            "calculation_id": content.calculation_id,
        }
        self.shown = {
            "period": content.period,
            "currency": content.currency,
            "total": plain(content.total),
            "body": wire.dumps_sorted(dict(content.body)),
        }
        self.lines = [(line.key, wire.dumps_sorted(line.body)) for line in content.lines]
        self.draws = content.draws
        self.inputs = content.inputs
        self.line_pins = [wire.dumps_sorted(line.pins) for line in content.lines]

    def rows(self, bill_id: str) -> Iterator[dict[str, Any]]:
        """The rows of its lines."""
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


# What bills of either kind charge for: by account, date and group, and whether it is consolidated.
_Charges = tuple[str, date, str, bool]


def _charges_of(key: BillKey, is_mixed: bool) -> _Charges:
    return key.account_id, key.bill_date, key.grouping_key, is_mixed


def _is_mixed(key: BillKey) -> bool:
    return key.frequency == BillingFrequency.MIXED.value


class _Chunk:
    """Bills that are looked up, compared and written together."""

    def __init__(self, run: _Run, contents: Sequence[BillContent]) -> None:
        self.run = run
        self.transaction = run.transaction
        self.contents = contents
        self.status = run.status
        self.calculation = {
            "calculated": self.transaction.now,
            "job_id": run.job_id,
            "outdated_by": None,
        }
        self.standing: dict[str, list[Posting]] = {}
        # The bills that there are, by what they charge for.
        self.others: dict[_Charges, str] = {}
        self.postings: list[NewPosting] = []
        self.settled: list[str] = []
        self.unchanged: list[str] = []
        self.inputs: list[dict[str, Any]] = []
        self.new: list[dict[str, Any]] = []
        self.updated: list[dict[str, Any]] = []
        self.approved: list[dict[str, Any]] = []
        self.lines: list[dict[str, Any]] = []
        self.before: dict[str, Row[Any]] = {}

    def put(self) -> list[BatchedBill]:
        keys = [content.key for content in self.contents]
        query = select(BILL).where(
            BILL.c.org == self.transaction.org_id,
            BILL.c.bill_date.in_({key.bill_date for key in keys}),
            BILL.c.account_id.in_({key.account_id for key in keys}),
        )
        rows = self.transaction.connection.execute(query)
        stored = {BillKey.of_row(row): row for row in rows}
        self.others = {_charges_of(key, _is_mixed(key)): row.id for key, row in stored.items()}
        ids = [row.id for row in stored.values()]
        lines = defaultdict(list)
        lines_query = (
            select(BILL_LINE.c.bill_id, BILL_LINE.c.key, BILL_LINE.c.body)
            .where(BILL_LINE.c.bill_id.in_(ids))
            .order_by(BILL_LINE.c.bill_id, BILL_LINE.c.sequence)
        )
        for line in self.transaction.connection.execute(lines_query) if ids else ():
            lines[line.bill_id].append((line.key, line.body))
        self.standing = consumption_of(self.transaction, (row.id for row in stored.values()))
        bills = self._texts(stored)
        outcomes = [self._decide(bill, stored.get(bill.key), lines) for bill in bills]
        self._write()
        for created in self.new:
            note_row_event(self.transaction, created, None)
        for values in (*self.updated, *self.approved):
            before = self.before[values["bill_id"]]._asdict()
            note_row_event(self.transaction, before | values, before)
        # A run bills many accounts: their events do not wait for its end in memory.
        self.transaction.journal.write()
        return outcomes

    def _texts(self, stored: dict[BillKey, Row[Any]]) -> Iterator[BillColumns]:
        """The bills as they are written: with the lines that people put on those that there are."""
        memos = memo_lines(self.transaction, [row.id for row in stored.values()])
        for content in self.contents:
            row = stored.get(content.key)
            added = () if row is None else memos.get(row.id, ())
            yield BillColumns(with_memos(content, added), self.run.closed_until)

    def _decide(
        self, bill: BillColumns, row: Row[Any] | None, lines: dict[str, list[tuple[str, str]]]
    ) -> BatchedBill:
        if row is None:
            billed_by = self.others.get(_charges_of(bill.key, not _is_mixed(bill.key)))
            if bill.closed or billed_by is not None:
                refused = self._outcome(bill, None, BillOutcome.LOCKED, BillStatus.PENDING)
                return replace(refused, billed_by=billed_by)
            return self._create(bill)
        locked = row.locked or bill.closed
        changed = self._corrections(bill, row.id, row.version + 1)
        same = (
            not changed
            and lines.get(row.id, []) == bill.lines
            and all(getattr(row, name) == text for name, text in bill.shown.items())
        )
        status = BillStatus(row.status)
        kept = self.run.keep_approved and status is BillStatus.APPROVED
        if not same and (locked or kept):
            why = BillOutcome.LOCKED if locked else BillOutcome.KEPT
            return self._leave(bill, row, why, lines.get(row.id, []), draws=bool(changed))
        if same and (locked or self.status in {status, BillStatus.PENDING}):
            if not locked:
                self._note_unchanged(bill, row)
            elif row.outdated_by is not None:
                self.settled.append(row.id)
            return self._outcome(bill, row.id, BillOutcome.UNCHANGED, status, row.version)
        if same:
            return self._approve(bill, row)
        self._post(bill, changed)
        return self._update(bill, row)

    def _note_unchanged(self, bill: BillColumns, row: Row[Any]) -> None:
        self.unchanged.append(row.id)
        inputs = inputs_column(row.version, bill.inputs)
        if inputs != row.inputs:
            self.inputs.append({"bill_id": row.id, "inputs": inputs})

    def _corrections(self, bill: BillColumns, bill_id: str, version: int) -> list[NewPosting]:
        """What makes the ledger say what a bill draws; nothing if it does."""
        consumption = BillConsumption(bill_id, version, bill.draws)
        return list(corrections(consumption, self.standing.get(bill_id, ()), self.run.job_id))

    def _post(self, bill: BillColumns, postings: Sequence[NewPosting]) -> None:
        self.postings += postings
        if postings:
            account_id, rank = bill.key.account_id, bill.key.rank
            self.run.changed[account_id] = min(self.run.changed.get(account_id, rank), rank)

    def _outcome(
        self,
        bill: BillColumns,
        bill_id: str | None,
        stored: BillOutcome,
        status: BillStatus,
        version: int = 0,
    ) -> BatchedBill:
        shown = bill.total, bill.shown["currency"], len(bill.lines), version
        return BatchedBill(bill_id, bill.key.account_id, stored, status, *shown)

    def _leave(
        self,
        bill: BillColumns,
        row: Row[Any],
        stored: BillOutcome,
        lines: list[tuple[str, str]],
        *,
        draws: bool,
    ) -> BatchedBill:
        """A bill that stands as it was, although it came out as another one."""
        shown = {name: getattr(row, name) for name in bill.shown}
        return BatchedBill(
            *(row.id, bill.key.account_id, stored, BillStatus(row.status)),
            *(Decimal(row.total), row.currency, len(lines), row.version),
            would_be=CalculatedTotal(bill.total, bill.shown["currency"]),
            differs=left_differences(shown, bill.shown, (lines, bill.lines), draws=draws),
        )

    def _create(self, bill: BillColumns) -> BatchedBill:
        bill_id = self.transaction.new_id()
        row: dict[str, Any] = {
            **bill.shown,
            **bill.made_from,
            **self.calculation,
            **approval(self.transaction, self.status),
            "invoice_number": self.run.numbers.take(),
            "id": bill_id,
            "org": self.transaction.org_id,
            "account_id": bill.key.account_id,
            "bill_date": bill.key.bill_date,
            "frequency": bill.key.frequency,
            "interval": bill.key.interval,
            "grouping_key": bill.key.grouping_key,
            "version": 1,
            "content_version": 1,
            **self._position(),
            "inputs": inputs_column(1, bill.inputs),
            "status": self.status.value,
            "locked": False,
            "created": self.transaction.now,
            "created_by": self.transaction.author,
            "modified": self.transaction.now,
            "modified_by": self.transaction.author,
        }
        self.new.append(row)
        self.lines += bill.rows(bill_id)
        self._post(bill, self._corrections(bill, bill_id, 1))
        return self._outcome(bill, bill_id, BillOutcome.CREATED, self.status, 1)

    def _update(self, bill: BillColumns, row: Row[Any]) -> BatchedBill:
        content = {**bill.shown, **bill.made_from, "content_version": row.version + 1}
        self.updated.append({**content, **self._position(), **self._next_version(bill, row)})
        self.lines += bill.rows(row.id)
        return self._outcome(bill, row.id, BillOutcome.UPDATED, self.status, row.version + 1)

    def _position(self) -> dict[str, int]:
        """Which transaction writes a content, and which ones its ledger has: all before it."""
        number = self.transaction.number
        return {"began": number, "ledger_at": number - 1}

    def _approve(self, bill: BillColumns, row: Row[Any]) -> BatchedBill:
        self.approved.append(self._next_version(bill, row))
        return self._outcome(bill, row.id, BillOutcome.APPROVED, self.status, row.version + 1)

    def _next_version(self, bill: BillColumns, row: Row[Any]) -> dict[str, Any]:
        self.before[row.id] = row
        return {
            "bill_id": row.id,
            "version": row.version + 1,
            "inputs": inputs_column(row.version + 1, bill.inputs),
            **self.calculation,
            **approval(self.transaction, self.status),
            "status": self.status.value,
            "modified": max(self.transaction.now, row.modified),
            "modified_by": self.transaction.author,
        }

    def _write(self) -> None:
        connection = self.transaction.connection
        keep_versions(self.transaction, [row["bill_id"] for row in self.updated])
        insert_rows(connection, BILL, self.new)
        for rows in (self.updated, self.approved, self.inputs):
            if rows:
                names = [name for name in rows[0] if name != "bill_id"]
                values: dict[str, Any] = {name: bindparam(name) for name in names}
                one = update(BILL).where(BILL.c.id == bindparam("bill_id"))
                connection.execute(one.values(values), rows)
        if self.updated:
            ids = [row["bill_id"] for row in self.updated]
            connection.execute(delete(BILL_LINE).where(BILL_LINE.c.bill_id.in_(ids)))
        insert_rows(connection, BILL_LINE, self.lines)
        post(self.transaction, self.postings)
        if self.settled:
            those = BILL.c.id.in_(self.settled)
            connection.execute(update(BILL).where(those).values(outdated_by=None))
        if self.unchanged:
            those = BILL.c.id.in_(self.unchanged)
            connection.execute(update(BILL).where(those).values(self.calculation))
