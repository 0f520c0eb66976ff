"""Bills by what people call them, and what people call what bills name.

A bill has the beginning of an id, an invoice number, or an account and a month.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import ColumnElement, or_, select

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.values.period import Month
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.entity_history import select_renamed
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

_ONE_DAY = timedelta(days=1)


class NamedBill(NamedTuple):
    """A bill as people know it."""

    id: str
    account_code: str
    bill_date: date
    currency: str
    total: Decimal
    invoice_number: str | None

    @property
    def month(self) -> str:
        """That of its last day."""
        return f"{self.bill_date - _ONE_DAY:%Y-%m}"


def bills_beginning(reader: Reader, digits: str, limit: int) -> list[NamedBill]:
    """The bills whose ids begin with some digits."""
    return _find(reader, [BILL.c.id.startswith(digits, autoescape=True)], limit)


def bills_invoiced(reader: Reader, number: str, limit: int) -> list[NamedBill]:
    """The bills of an invoice number."""
    return _find(reader, [BILL.c.invoice_number == number], limit)


def bills_of_month(reader: Reader, account_id: str, month: Month, limit: int) -> list[NamedBill]:
    """The bills of an account whose last day is in a month."""
    conditions = [
        BILL.c.account_id == account_id,
        BILL.c.bill_date > month.first,
        BILL.c.bill_date <= month.after,
    ]
    return _find(reader, conditions, limit)


def newest_bills(reader: Reader, limit: int, account_id: str | None = None) -> list[NamedBill]:
    """The bills with the latest dates: of an account, or of all."""
    of_account = [] if account_id is None else [BILL.c.account_id == account_id]
    return _find(reader, of_account, limit)


def bills_with_ids(reader: Reader, ids: Iterable[str]) -> dict[str, NamedBill]:
    """Bills by their ids, as far as there are some."""
    found: dict[str, NamedBill] = {}
    for some in chunks_of(ids):
        found |= {each.id: each for each in _find(reader, [BILL.c.id.in_(some)], len(some))}
    return found


def _find(reader: Reader, conditions: list[ColumnElement[bool]], limit: int) -> list[NamedBill]:
    table = BILL.c
    query = (
        select(
            *(table.id, table.account_id, table.bill_date),
            *(table.currency, table.total, table.invoice_number),
        )
        .where(table.org == reader.org_id, *conditions)
        .order_by(table.bill_date.desc(), table.created.desc(), table.id)
        .limit(limit)
    )
    rows = reader.connection.execute(query).all()
    names = by_id(reader, {row.account_id for row in rows})
    return [
        NamedBill(
            row.id,
            names[row.account_id].code if row.account_id in names else row.account_id,
            row.bill_date,
            row.currency,
            Decimal(row.total),
            row.invoice_number,
        )
        for row in rows
    ]


def names_changed(reader: Reader, since: datetime, at: datetime) -> ColumnElement[bool]:
    """Whether the account of a bill, or the meter of one of its lines, was renamed in a time.

    What was created or deleted in that time counts as renamed. The database looks for the bills,
    so that memory does not grow with them.
    """
    of_account = BILL.c.account_id.in_(select_renamed(reader, Account, since, at))
    meters = select_renamed(reader, Meter, since, at)
    if reader.connection.execute(meters.limit(1)).first() is None:
        return of_account  # No line has to be read.
    bill, line = BILL.alias(), BILL_LINE.alias()
    of_meters = (
        select(line.c.bill_id)
        .join(bill, bill.c.id == line.c.bill_id)
        .where(bill.c.org == reader.org_id, member_text(line.c.body, "meterId").in_(meters))
    )
    return or_(of_account, BILL.c.id.in_(of_meters))
