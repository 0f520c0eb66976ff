"""Bills that may approve themselves."""

from datetime import date
from typing import Final, NamedTuple

from sqlalchemy import literal, select

from meterlake.model.bills.requests import BillStatus
from meterlake.model.resources.events import BILL, UPDATED
from meterlake.stores.state.billing.bills.lists import BillFilters, select_bills
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL as BILLS
from meterlake.stores.state.events.event_tables import EVENT

_CHANGED: Final = f"{BILL}.{UPDATED}"


class WaitingBill(NamedTuple):
    """A bill that waits for approval.

    Attributes:
        job_id: The job that calculated it last.
    """

    id: str
    account_id: str
    bill_date: date
    frequency: str
    job_id: str | None


def waiting_bills(reader: Reader, latest: date) -> list[WaitingBill]:
    """The bills up to a bill date that are PENDING, open to changes, and were never approved.

    One that was approved and has changed since waits for a person; so does one whose approval a
    person took back.
    """
    columns = [BILLS.c[name] for name in WaitingBill._fields]
    query = select(*columns, BILLS.c.version).where(
        BILLS.c.org == reader.org_id,
        BILLS.c.status == BillStatus.PENDING.value,
        BILLS.c.locked.is_(False),
        BILLS.c.bill_date <= latest,
    )
    rows = reader.connection.execute(query.order_by(BILLS.c.bill_date, BILLS.c.id)).all()
    approved = _once_approved(reader, [row.id for row in rows if row.version > 1])
    return [WaitingBill(*row[:-1]) for row in rows if row.id not in approved]


def bills_to_approve(reader: Reader, filters: BillFilters, most: int) -> list[WaitingBill]:
    """The bills that filters mean, as far as they are no more than so many; else none."""
    bills = select_bills(reader, filters).subquery()
    columns = [bills.c[name] for name in WaitingBill._fields]
    rows = reader.connection.execute(select(*columns).limit(most + 1)).all()
    return [WaitingBill(*row) for row in rows] if len(rows) <= most else []


def _once_approved(reader: Reader, ids: list[str]) -> set[str]:
    """Those of some bills that were APPROVED before a change."""
    before = member_text(member_text(EVENT.c.body, literal("oldDto")), literal("status"))
    found: set[str] = set()
    for chunk in chunks_of(ids):
        query = select(EVENT.c.resource_id).where(
            EVENT.c.org == reader.org_id,
            EVENT.c.resource_id.in_(chunk),
            EVENT.c.name == _CHANGED,
            before == BillStatus.APPROVED.value,
        )
        found.update(reader.connection.execute(query.distinct()).scalars())
    return found
