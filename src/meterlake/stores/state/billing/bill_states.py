"""Bills as lists show them that somebody approves from: without their lines."""

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import func, literal, select

from meterlake.model.bills.requests import BillStatus
from meterlake.stores.state.billing.bills.lists import BillFilters, select_bills
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL_LINE


class BillState(NamedTuple):
    """What a bill is now.

    Attributes:
        lines: How many it has.
        waits: Whether it is PENDING and may still be changed.
    """

    id: str
    account_id: str
    account_code: str
    bill_date: date
    currency: str
    total: Decimal
    lines: int
    status: BillStatus
    version: int
    created: datetime
    waits: bool


def read_bill_states(reader: Reader, filters: BillFilters) -> list[BillState]:
    """The bills that filters mean, by account and bill date."""
    waiting = replace(filters, status=BillStatus.PENDING, locked=False)
    open_ids = select_bills(reader, waiting).subquery()
    waits = set(reader.connection.execute(select(open_ids.c.id)).scalars())
    bill = select_bills(reader, filters).subquery().c
    count = select(func.count()).where(BILL_LINE.c.bill_id == bill.id).scalar_subquery()
    code = member_text(bill.body, literal("accountCode"))
    columns = [
        *(bill.id, bill.account_id, code.label("code"), bill.bill_date, bill.currency),
        *(bill.total, count.label("lines"), bill.status, bill.version, bill.created),
    ]
    rows = reader.connection.execute(select(*columns).order_by("code", bill.bill_date, bill.id))
    return [
        BillState(
            *(row.id, row.account_id, row.code or "", row.bill_date, row.currency),
            *(Decimal(row.total), row.lines, BillStatus(row.status), row.version, row.created),
            waits=row.id in waits,
        )
        for row in rows
    ]
