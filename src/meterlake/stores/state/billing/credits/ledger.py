"""The ledger of balances and commitments in State: postings are added, never changed.

A bill that is calculated again takes back what it drew and draws anew, in the transaction that
stores it:

    with state.transaction(org_id, author) as transaction:
        ledger.lock_sources(transaction, source_ids)
        movements = ledger.read_movements(transaction, source_ids)
        ...
        ledger.repost(transaction, bill_id, version, draws)
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Row, select, update

from meterlake.model.bills.billing_dates import is_closed
from meterlake.model.bills.ledger import (
    SOURCES,
    BillRank,
    Consumption,
    LedgerAccount,
    LedgerAccountType,
    Movement,
    Posting,
    PostingKind,
)
from meterlake.model.values import wire
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.outdated_bills import NO_JOB
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.entity_history import stream_rows
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.postings import posting_of, select_postings
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.row_digests import digest_of_posting
from meterlake.stores.state.core.tables import BILL, BILL_LINE, BILL_MEMO, ENTITY, POSTING
from meterlake.stores.state.core.transaction import Transaction

# Of the bill that draws.
_BILL: Final = (
    *(BILL.c.bill_date, BILL.c.frequency, BILL.c.interval, BILL.c.grouping_key),
    BILL.c.locked,
)
# They change nothing of what is left to draw: they follow from it.
_DERIVED: Final = (PostingKind.EXPIRY, PostingKind.ROLLOVER)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPosting:
    """A posting before it is made; see `Posting`."""

    from_account: LedgerAccount
    to_account: LedgerAccount
    amount: Decimal
    currency: str
    kind: PostingKind
    source_id: str
    bill_id: str | None = None
    bill_version: int | None = None
    job_id: str | None = None
    reverses: str | None = None
    applied: datetime | None = None


@dataclass(frozen=True, slots=True)
class BillConsumption:
    """All that a version of a bill draws."""

    bill_id: str
    version: int
    draws: Sequence[Consumption] = field(default=())


def post(
    transaction: Transaction, postings: Iterable[NewPosting], author: str | None = None
) -> list[str]:
    """Add postings, and answer their ids.

    Args:
        transaction: Where to.
        postings: Which ones.
        author: Who makes them; the author of the transaction if None.
    """
    rows: list[dict[str, Any]] = [
        {
            "id": transaction.new_id(),
            "org": transaction.org_id,
            "from_account": str(each.from_account),
            "to_account": str(each.to_account),
            "amount": plain(each.amount),
            "currency": each.currency,
            "kind": each.kind.value,
            "source_id": each.source_id,
            "bill_id": each.bill_id,
            "bill_version": each.bill_version,
            "job_id": each.job_id,
            "reverses": each.reverses,
            "applied": each.applied,
            "created": transaction.now,
            "created_by": author or transaction.author,
            "began": transaction.number,
        }
        for each in postings
    ]
    for row in rows:
        row["digest"] = digest_of_posting(row)
    assert all(each["from_account"] != each["to_account"] for each in rows), rows
    assert all(not str(each["amount"]).startswith("-") for each in rows), rows
    insert_rows(transaction.connection, POSTING, rows)
    return [str(each["id"]) for each in rows]


def lock_sources(transaction: Transaction, source_ids: Collection[str]) -> None:
    """Let nobody else draw from balances and commitments until the transaction ends.

    In SQLite a transaction that writes is alone anyway.
    """
    for ids in chunks_of(sorted(source_ids)):
        query = select(ENTITY.c.id).where(ENTITY.c.org == transaction.org_id, ENTITY.c.id.in_(ids))
        transaction.connection.execute(query.order_by(ENTITY.c.id).with_for_update()).all()


def repost(
    transaction: Transaction,
    bill_id: str,
    version: int,
    draws: Sequence[Consumption],
    job_id: str | None = None,
) -> set[str]:
    """Make the ledger say what a version of a bill draws; see `repost_bills`."""
    return repost_bills(transaction, [BillConsumption(bill_id, version, draws)], job_id)


def repost_bills(
    transaction: Transaction, bills: Sequence[BillConsumption], job_id: str | None = None
) -> set[str]:
    """Make the ledger say what bills draw: what is no longer drawn is taken back.

    A bill that draws what it drew before changes nothing. A bill that is deleted draws nothing.

    Args:
        transaction: The one that stores the bills.
        bills: Each of them at most once.
        job_id: The job that calculated them.

    Returns:
        The ids of the sources of which anything changed.
    """
    standing = consumption_of(transaction, [each.bill_id for each in bills])
    new = [
        posting
        for bill in bills
        for posting in corrections(bill, standing.get(bill.bill_id, []), job_id)
    ]
    post(transaction, new)
    return {each.source_id for each in new}


def consumption_of(reader: Reader, bill_ids: Iterable[str]) -> dict[str, list[Posting]]:
    """What bills draw, by their ids, without what was taken back."""
    found: dict[str, list[Posting]] = defaultdict(list)
    for ids in chunks_of(bill_ids):
        query = select_postings(reader).where(
            POSTING.c.bill_id.in_(ids),
            POSTING.c.kind == PostingKind.CONSUMPTION.value,
            is_standing(),
        )
        for row in reader.connection.execute(query.order_by(POSTING.c.sequence)):
            found[row.bill_id].append(posting_of(row))
    return dict(found)


def read_movements(reader: Reader, source_ids: Collection[str]) -> dict[str, list[Movement]]:
    """All that came into balances and commitments and went out, without what was taken back.

    What expired or was carried over at the end of a balance is left out: it follows from the rest.

    Returns:
        By the id of the source, in the order of postings; a source without any is not in it.
    """
    found: dict[str, list[Movement]] = defaultdict(list)
    closed_until = closed_before(reader)
    for ids in chunks_of(source_ids):
        query = (
            select(POSTING, *_BILL)
            .outerjoin(BILL, BILL.c.id == POSTING.c.bill_id)
            .where(
                POSTING.c.org == reader.org_id,
                POSTING.c.source_id.in_(ids),
                POSTING.c.kind.not_in([*_DERIVED, PostingKind.REVERSAL]),
                is_standing(),
            )
        )
        for row in reader.connection.execute(query.order_by(POSTING.c.sequence)):
            found[row.source_id].append(_movement(row, closed_until))
    return dict(found)


def all_postings(reader: Reader) -> Generator[Posting, None, None]:
    """All postings of the organization, in their order."""
    for row in stream_rows(reader, select_postings(reader).order_by(POSTING.c.sequence)):
        yield posting_of(row)


def is_standing() -> ColumnElement[bool]:
    """The condition that a posting was not taken back."""
    reversal = POSTING.alias()
    return ~select(reversal.c.id).where(reversal.c.reverses == POSTING.c.id).exists()


def _movement(row: Row[Any], closed_until: date | None) -> Movement:
    posting = posting_of(row)
    is_incoming = posting.change > 0 or posting.kind is PostingKind.CREDIT
    bill, is_final = None, False
    if row.bill_date is not None:
        bill = BillRank.of(row.bill_date, row.frequency, row.interval, row.grouping_key)
        is_final = is_closed(row.bill_date, closed_until, locked=row.locked)
    return Movement(
        posting.to_account if is_incoming else posting.from_account,
        posting.kind,
        posting.change,
        posting.applied,
        bill,
        is_final,
    )


# What makes two draws of a bill the same.
_Flow = tuple[LedgerAccount, LedgerAccount, Decimal, str]


def corrections(
    bill: BillConsumption, standing: Sequence[Posting], job_id: str | None = None
) -> Iterator[NewPosting]:
    """What makes of what a bill drew what it draws."""
    missing = Counter(_flows(bill.draws))
    for each in standing:
        flow = (each.from_account, each.to_account, each.amount, each.currency)
        if missing[flow]:
            missing[flow] -= 1
        else:
            yield replace(
                reversal_of(each),
                bill_id=bill.bill_id,
                bill_version=bill.version,
                job_id=job_id,
            )
    for from_account, to_account, amount, currency in missing.elements():
        yield NewPosting(
            from_account=from_account,
            to_account=to_account,
            amount=amount,
            currency=currency,
            kind=PostingKind.CONSUMPTION,
            source_id=from_account.id if from_account.type in SOURCES else to_account.id,
            bill_id=bill.bill_id,
            bill_version=bill.version,
            job_id=job_id,
        )


def _flows(draws: Iterable[Consumption]) -> Iterator[_Flow]:
    """One flow for each account of a source and accounting product; back if more comes back."""
    sums: dict[tuple[LedgerAccount, LedgerAccount, str], Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for each in draws:
            revenue = LedgerAccount(LedgerAccountType.REVENUE, each.product_id or "")
            sums[each.account, revenue, each.currency] += each.amount
    for (account, revenue, currency), amount in sums.items():
        if amount > 0:
            yield account, revenue, amount, currency
        elif amount < 0:
            yield revenue, account, amount.copy_negate(), currency


def reversal_of(posting: Posting) -> NewPosting:
    """What takes a posting back."""
    return NewPosting(
        from_account=posting.to_account,
        to_account=posting.from_account,
        amount=posting.amount,
        currency=posting.currency,
        kind=PostingKind.REVERSAL,
        source_id=posting.source_id,
        reverses=posting.id,
        applied=posting.applied,
    )


class ReturningBill(NamedTuple):
    """A bill that gives back to sources what they paid of lines of other bills."""

    bill_id: str
    returns: Sequence[dict[str, Any]]


def returning_bills(reader: Reader) -> Generator[ReturningBill, None, None]:
    """All bills that give something back."""
    query = select(BILL.c.id, BILL.c.pins).where(
        BILL.c.org == reader.org_id, BILL.c.pins.like('%"returns":%')
    )
    for row in stream_rows(reader, query):
        yield ReturningBill(row.id, wire.loads(row.pins)["returns"])


class DrawingLine(NamedTuple):
    """A line of a bill that draws from a source, as the bill has it."""

    bill_id: str
    body: dict[str, Any]
    pins: dict[str, Any]


def drawing_lines(reader: Reader) -> Generator[DrawingLine, None, None]:
    """All lines of bills that may draw from a source."""
    query = (
        select(BILL_LINE.c.bill_id, BILL_LINE.c.body, BILL_LINE.c.pins)
        .join(BILL, BILL.c.id == BILL_LINE.c.bill_id)
        .where(BILL.c.org == reader.org_id, BILL_LINE.c.body.like("%\\_CONSUMED%", escape="\\"))
    )
    for row in stream_rows(reader, query):
        yield DrawingLine(row.bill_id, wire.loads(row.body), wire.loads(row.pins))


class BilledCredit(NamedTuple):
    """A credit on a bill about a line of the same bill; its amount is below 0."""

    bill_id: str
    line_id: str
    amount: Decimal


def billed_credits(reader: Reader, account_ids: Iterable[str]) -> dict[BillKey, list[BilledCredit]]:
    """What people credit on lines of the bills of some accounts, in the order in which they did."""
    found: dict[BillKey, list[BilledCredit]] = defaultdict(list)
    columns = [BILL.c[name] for name in BillKey.COLUMNS]
    for ids in chunks_of(account_ids):
        query = (
            select(*columns, BILL_MEMO.c.bill_id, BILL_MEMO.c.line)
            .join(BILL, BILL.c.id == BILL_MEMO.c.bill_id)
            .where(BILL.c.org == reader.org_id, BILL.c.account_id.in_(ids))
            .order_by(BILL_MEMO.c.bill_id, BILL_MEMO.c.position)
        )
        for row in reader.connection.execute(query):
            line = wire.loads(row.line)
            amount = Decimal(line["convertedSubtotal"])
            if amount < 0 and line["referencedBillId"] == row.bill_id:
                credit = BilledCredit(row.bill_id, line["referencedLineItemId"], amount)
                found[BillKey.of_row(row)].append(credit)
    return dict(found)


def mark_credited(transaction: Transaction, bill_id: str) -> None:
    """Have a bill made again by the next job of its account: its sources pay something else."""
    one = update(BILL).where(BILL.c.id == bill_id)
    transaction.connection.execute(one.values(outdated_by=NO_JOB))
