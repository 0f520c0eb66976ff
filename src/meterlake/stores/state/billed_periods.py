"""Which periods of which accounts have a bill, and what the bill was made from."""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import literal, select

from meterlake.stores.state.json_columns import member_text
from meterlake.stores.state.reader import Reader
from meterlake.stores.state.tables import BILL


class BilledPeriod(NamedTuple):
    """One bill: its period by name and as instants, when and from what it was made."""

    account_id: str
    period: str
    frequency: str
    start: datetime
    end: datetime
    made: datetime
    snapshot: int


def billed_periods(reader: Reader, before: int) -> list[BilledPeriod]:
    """The bills of an organization that were made from a snapshot before another one."""
    query = select(
        BILL.c.account_id,
        BILL.c.period,
        BILL.c.frequency,
        member_text(BILL.c.body, literal("startDateTimeUTC")),
        member_text(BILL.c.body, literal("endDateTimeUTC")),
        BILL.c.modified,
        member_text(BILL.c.pins, literal("snapshot")),
    ).where(BILL.c.org == reader.org_id)
    found = (
        BilledPeriod(
            account_id,
            period,
            frequency,
            datetime.fromisoformat(start),
            datetime.fromisoformat(end),
            made,
            int(snapshot),
        )
        for account_id, period, frequency, start, end, made, snapshot in (
            reader.connection.execute(query)
        )
    )
    return [each for each in found if each.snapshot < before]
