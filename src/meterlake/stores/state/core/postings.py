"""Postings of the ledger as the database has them, and what was spent of commitments."""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, or_, select

from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType, Posting, PostingKind
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BALANCE_NOTE, BILL, POSTING


def amounts_spent(reader: Reader, source_ids: Iterable[str]) -> dict[str, Decimal]:
    """What was drawn from commitments, by their ids; without those that nothing was drawn from."""
    sums: dict[str, Decimal] = {}
    for ids in chunks_of(source_ids):
        sums |= _spent(reader, select_postings(reader).where(POSTING.c.source_id.in_(ids)))
    return sums


def all_spent(reader: Reader, at: datetime) -> dict[str, Decimal]:
    """What was drawn from all commitments until an instant, by their ids."""
    own = f"{LedgerAccountType.COMMITMENT}:"
    is_drawn = or_(POSTING.c.from_account.startswith(own), POSTING.c.to_account.startswith(own))
    return _spent(reader, select_postings(reader).where(is_drawn, POSTING.c.created <= at))


def _spent(reader: Reader, query: Select[Any]) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for row in reader.connection.execute(query):
            sums[row.source_id] -= posting_of(row).change
    return dict(sums)


class DatedDraw(NamedTuple):
    """What bills of a date drew from a commitment; below 0 if they gave back more."""

    bill_date: date
    amount: Decimal


def dated_draws(reader: Reader, source_ids: Iterable[str]) -> dict[str, list[DatedDraw]]:
    """What was drawn from commitments by the dates of the bills, by their ids.

    What a bill drew that is gone was taken back; both count from the beginning.
    """
    found: dict[str, list[DatedDraw]] = defaultdict(list)
    for ids in chunks_of(source_ids):
        query = (
            select(POSTING, BILL.c.bill_date)
            .outerjoin(BILL, BILL.c.id == POSTING.c.bill_id)
            .where(POSTING.c.org == reader.org_id, POSTING.c.source_id.in_(ids))
        )
        for row in reader.connection.execute(query):
            amount = posting_of(row).change.copy_negate()
            found[row.source_id].append(DatedDraw(row.bill_date or date.min, amount))
    return dict(found)


def posting_of(row: Row[Any]) -> Posting:
    """A posting from its row."""
    return Posting(
        sequence=row.sequence,
        id=row.id,
        from_account=LedgerAccount.parse(row.from_account),
        to_account=LedgerAccount.parse(row.to_account),
        amount=Decimal(row.amount),
        currency=row.currency,
        kind=PostingKind(row.kind),
        source_id=row.source_id,
        created=row.created,
        author=row.created_by,
        bill_id=row.bill_id,
        bill_version=row.bill_version,
        job_id=row.job_id,
        reverses=row.reverses,
        applied=row.applied,
    )


def newest_due(reader: Reader, schedule_id: str, at: datetime | None = None) -> datetime | None:
    """When the newest transaction was due that a schedule made; None if it made none.

    Args:
        reader: Where from.
        schedule_id: Of a schedule of transactions.
        at: Leave out what was booked later.
    """
    query = (
        select(BALANCE_NOTE.c.due)
        .join(POSTING, POSTING.c.id == BALANCE_NOTE.c.id)
        .where(
            BALANCE_NOTE.c.org == reader.org_id,
            BALANCE_NOTE.c.entity_id == schedule_id,
            BALANCE_NOTE.c.due.is_not(None),
        )
        .order_by(BALANCE_NOTE.c.due.desc())
        .limit(1)
    )
    if at is not None:
        query = query.where(POSTING.c.created <= at)
    return reader.connection.execute(query).scalar()


def select_postings(reader: Reader) -> Select[Any]:
    """All postings of the organization."""
    return select(POSTING).where(POSTING.c.org == reader.org_id)
