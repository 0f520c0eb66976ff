"""Which periods of which accounts have a bill, and what the bill was made from."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, literal, select

from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL


class OldestBill(NamedTuple):
    """A period that was billed, and the oldest snapshot that one of its bills was made from."""

    period: str
    frequency: str
    snapshot: int


class BilledPeriod(NamedTuple):
    """One bill: its period by name and as instants, when and from what it was made."""

    bill_id: str
    account_id: str
    start: datetime
    end: datetime
    made: datetime
    snapshot: int


def oldest_bills(reader: Reader, before: int) -> list[OldestBill]:
    """The periods with bills from a snapshot before another one; an index knows them all."""
    oldest = func.min(BILL.c.snapshot)
    query = (
        select(BILL.c.period, BILL.c.frequency, oldest)
        .where(BILL.c.org == reader.org_id)
        .group_by(BILL.c.period, BILL.c.frequency)
        .having(oldest < before)
        .order_by(BILL.c.period, BILL.c.frequency)
    )
    return [OldestBill(*row) for row in reader.connection.execute(query)]


def billed_periods(
    reader: Reader, period: str, frequency: str, account_ids: Collection[str]
) -> Iterator[BilledPeriod]:
    """The bills of some accounts in one period."""
    query = select(
        BILL.c.id,
        BILL.c.account_id,
        member_text(BILL.c.body, literal("startDateTimeUTC")),
        member_text(BILL.c.body, literal("endDateTimeUTC")),
        BILL.c.modified,
        BILL.c.snapshot,
    ).where(
        BILL.c.org == reader.org_id,
        BILL.c.period == period,
        BILL.c.frequency == frequency,
        BILL.c.snapshot.is_not(None),
    )
    for bill_id, account_id, start, end, made, snapshot in reader.connection.execute(query):
        if account_id in account_ids:
            yield BilledPeriod(
                bill_id,
                account_id,
                datetime.fromisoformat(start),
                datetime.fromisoformat(end),
                made,
                snapshot,
            )
