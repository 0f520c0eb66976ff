"""The bills of a month as they are stored, short: for a review, and to tell whether they changed."""

from datetime import date
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import literal, select

from meterlake.model.bills.requests import BillStatus
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.stored_bills import BODY_END
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL


class MonthBill(NamedTuple):
    """A bill whose last day is in the month.

    Attributes:
        content_version: The version at which its content was written; approving changes none.
        is_locked: Whether it is locked, or the lock date closes it.
    """

    id: str
    account_id: str
    bill_date: date
    currency: str
    total: Decimal
    status: BillStatus
    is_locked: bool
    content_version: int


def read_month_bills(reader: Reader, month: str) -> list[MonthBill]:
    """The bills of a month such as `2026-10`, by account, bill date and id."""
    columns = (
        *(BILL.c.id, BILL.c.account_id, BILL.c.bill_date, BILL.c.currency, BILL.c.total),
        *(BILL.c.status, BILL.c.locked, BILL.c.content_version),
        member_text(BILL.c.body, literal(BODY_END)).label("ends"),
    )
    query = select(*columns).where(BILL.c.org == reader.org_id, BILL.c.period == month)
    closed = closed_before(reader)
    found = [
        MonthBill(
            row.id,
            row.account_id,
            row.bill_date,
            row.currency,
            Decimal(row.total),
            BillStatus(row.status),
            row.locked or (closed is not None and row.ends <= closed.isoformat()),
            row.content_version,
        )
        for row in reader.connection.execute(query)
    ]
    return sorted(found, key=lambda each: (each.account_id, each.bill_date, each.id))
