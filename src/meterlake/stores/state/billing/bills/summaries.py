"""Bills without their lines: those of a month, and as lists show them that somebody approves from."""

from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import func, literal, select

from meterlake.model.bills.requests import BillStatus
from meterlake.stores.state.billing.bills.lists import BillFilters, select_bills
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.stored_bills import BODY_END, BillKey
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE


class MonthBill(NamedTuple):
    """A bill whose last day is in the month.

    Attributes:
        content_version: The version at which its content was written; approving changes none.
        is_locked: Whether it is locked, or the lock date closes it.
        is_outdated: Whether something else is left of its balances and commitments since it was
            calculated, and it may change.
    """

    id: str
    account_id: str
    bill_date: date
    currency: str
    total: Decimal
    status: BillStatus
    is_locked: bool
    content_version: int
    key: BillKey
    is_outdated: bool


def read_month_bills(reader: Reader, month: str) -> list[MonthBill]:
    """The bills of a month such as `2026-10`, by account, bill date and id."""
    columns = (
        *(BILL.c.id, BILL.c.account_id, BILL.c.bill_date, BILL.c.currency, BILL.c.total),
        *(BILL.c.status, BILL.c.locked, BILL.c.content_version, BILL.c.outdated_by),
        *(BILL.c.frequency, BILL.c.interval, BILL.c.grouping_key),
        member_text(BILL.c.body, literal(BODY_END)).label("ends"),
    )
    query = select(*columns).where(BILL.c.org == reader.org_id, BILL.c.period == month)
    closed = closed_before(reader)
    found = []
    for row in reader.connection.execute(query):
        is_locked = row.locked or (closed is not None and row.ends <= closed.isoformat())
        found.append(
            MonthBill(
                *(row.id, row.account_id, row.bill_date, row.currency, Decimal(row.total)),
                *(BillStatus(row.status), is_locked, row.content_version, BillKey.of_row(row)),
                is_outdated=row.outdated_by is not None and not is_locked,
            )
        )
    return sorted(found, key=lambda each: (each.account_id, each.bill_date, each.id))


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
