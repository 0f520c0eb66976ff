"""What happened to bills and to sources of credit between two transactions of an organization."""

from collections import defaultdict
from collections.abc import Collection
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import Column, ColumnElement, or_, select

from meterlake.stores.state.billing.memos.memos import KEY_PREFIX
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_MEMO,
    BILL_VERSION,
    BILL_VERSION_LINE,
    POSTING,
)


class AlteredBill(NamedTuple):
    """A bill that was made, made again, locked or deleted."""

    id: str
    bill_date: date
    is_locked: bool
    is_deleted: bool


class SourcePosting(NamedTuple):
    """What came into a balance or commitment, or went out of it; `bill_date` is that of its bill."""

    kind: str
    amount: str
    bill_id: str | None
    bill_date: date | None
    created: datetime
    author: str


def changed_bills_between(
    reader: Reader, account_ids: Collection[str], first: int, last: int
) -> list[AlteredBill]:
    """The bills of accounts that changed after one transaction until another one, by bill date."""
    found: dict[str, AlteredBill] = {}
    for ids in chunks_of(sorted(account_ids)):
        version = BILL_VERSION.c
        query = select(version.bill_id, version.bill_date, version.ended).where(
            version.org == reader.org_id,
            version.account_id.in_(ids),
            or_(_within(version.began, first, last), _within(version.ended, first, last)),
        )
        for row in reader.connection.execute(query):
            found[row.bill_id] = AlteredBill(row.bill_id, row.bill_date, False, True)
        now = BILL.c
        query = select(now.id, now.bill_date, now.began, now.locked_in).where(
            now.org == reader.org_id, now.account_id.in_(ids)
        )
        for row in reader.connection.execute(query):
            is_locked = row.locked_in is not None and first < row.locked_in <= last
            if is_locked or first < row.began <= last or row.id in found:
                found[row.id] = AlteredBill(row.id, row.bill_date, is_locked, False)
    return sorted(found.values(), key=lambda each: (each.bill_date, each.id))


def memo_authors(reader: Reader, bill_id: str) -> dict[str, tuple[str, datetime]]:
    """Who wrote each line that people put on a bill last, and when, by its key."""
    table = BILL_MEMO.c
    query = select(table.key, table.modified_by, table.modified).where(table.bill_id == bill_id)
    return {key: (author, at) for key, author, at in reader.connection.execute(query)}


class GoneMemo(NamedTuple):
    """Who put a line on a bill that is on it no more, who took it away, and when."""

    made_by: str
    made: datetime
    removed_by: str
    removed: datetime


def gone_memos(reader: Reader, bill_id: str) -> dict[str, GoneMemo]:
    """The lines of people that former versions of a bill have, by key: the last one of each is its end."""
    line, version = BILL_VERSION_LINE.c, BILL_VERSION.c
    query = (
        select(line.key, version.modified_by, version.modified)
        .add_columns(version.replaced_by, version.replaced)
        .join(BILL_VERSION, (version.bill_id == line.bill_id) & (version.version == line.version))
        .where(
            version.org == reader.org_id,
            line.bill_id == bill_id,
            line.key.startswith(KEY_PREFIX, autoescape=True),
        )
        .order_by(version.version)
    )
    found: dict[str, GoneMemo] = {}
    for key, *told in reader.connection.execute(query):
        last = GoneMemo(*told)
        first = found.get(key, last)
        found[key] = last._replace(made_by=first.made_by, made=first.made)
    return found


def _within(column: Column[int], first: int, last: int) -> ColumnElement[bool]:
    return column.between(first + 1, last)


def postings_between(
    reader: Reader, source_ids: Collection[str], first: int, last: int
) -> dict[str, list[SourcePosting]]:
    """What balances and commitments got and gave after one transaction until another one, by id."""
    found: dict[str, list[SourcePosting]] = defaultdict(list)
    table = POSTING.c
    for ids in chunks_of(sorted(source_ids)):
        query = (
            select(table.source_id, table.kind, table.amount, table.bill_id, BILL.c.bill_date)
            .add_columns(table.created, table.created_by)
            .outerjoin(BILL, BILL.c.id == table.bill_id)
            .where(table.org == reader.org_id, table.source_id.in_(ids))
            .where(table.began > first, table.began <= last)
            .order_by(table.source_id, table.sequence)
        )
        for source_id, *rest in reader.connection.execute(query):
            found[source_id].append(SourcePosting(*rest))
    return dict(found)
