"""Bills by their dates, the newest first, a few at a time."""

from collections.abc import Iterator
from datetime import date
from typing import Final

from sqlalchemy import and_, literal, or_, select

from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill, join_lines, line_of
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

_PAGE: Final = 500


def billed_between(reader: Reader, start: date, end: date) -> Iterator[StoredBill]:
    """The bills whose date lies in `[start, end)`, the newest first; read as they are needed."""
    dates = (
        select(BILL)
        .where(BILL.c.org == reader.org_id, BILL.c.bill_date >= start, BILL.c.bill_date < end)
        .order_by(BILL.c.bill_date.desc(), BILL.c.id)
        .limit(_PAGE)
    )
    query = dates
    while rows := reader.connection.execute(query).all():
        lines: dict[str, list[LineContent]] = {row.id: [] for row in rows}
        found = select(BILL_LINE).where(BILL_LINE.c.bill_id.in_(list(lines)))
        for line in reader.connection.execute(found.order_by(BILL_LINE.c.sequence)):
            lines[line.bill_id].append(line_of(line))
        yield from (join_lines(row, lines[row.id]) for row in rows)
        day, id_ = rows[-1].bill_date, rows[-1].id
        same_day = and_(BILL.c.bill_date == day, BILL.c.id > id_)
        query = dates.where(or_(BILL.c.bill_date < day, same_day))


def billed_account_ids(reader: Reader) -> set[str]:
    """The accounts that have a bill."""
    query = select(BILL.c.account_id).where(BILL.c.org == reader.org_id).distinct()
    return set(reader.connection.execute(query).scalars())


def billed_product_names(reader: Reader) -> list[tuple[str, str | None]]:
    """Name and code of the products that lines of bills are for, as they were called, in order."""
    name, code = (
        member_text(BILL_LINE.c.body, literal(member)) for member in ("productName", "productCode")
    )
    query = (
        select(name, code).join(BILL).where(BILL.c.org == reader.org_id, name.is_not(None))
    ).distinct()
    found = [(row[0], row[1]) for row in reader.connection.execute(query)]
    return sorted(found, key=lambda each: (each[0], each[1] or ""))
