"""Many bills approved at once: those that wait for it, or that nothing speaks against by itself."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, bindparam, func, literal, select, update

from meterlake.model.bills.requests import BillStatus
from meterlake.model.resources.events import BILL as BILL_RESOURCE
from meterlake.model.resources.events import UPDATED
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity
from meterlake.stores.state.billing.bills.bills import approval
from meterlake.stores.state.billing.bills.events import note_row_event
from meterlake.stores.state.billing.bills.lists import BillFilters, select_bills
from meterlake.stores.state.billing.statements.jobs import ApprovedBill, order_statements
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_CALCULATION, BILL_MEMO, ENTITY_HISTORY
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.events.event_tables import EVENT

# Bills of one transaction: other writers of State wait for as long as it takes.
BATCH: Final = 400
_CHANGED: Final = f"{BILL_RESOURCE}.{UPDATED}"


def approve_pending(transaction: Transaction, filters: BillFilters) -> int:
    """Approve up to `BATCH` of the bills that filters mean; how many were approved.

    Bills that are approved or locked, and those that the lock date closes, are left as they are.
    """
    found_rows = transaction.connection.execute(_pending(transaction, filters))
    rows = [row._asdict() for row in found_rows]
    shared = {
        "status": BillStatus.APPROVED.value,
        "modified_by": transaction.author,
        **approval(transaction, BillStatus.APPROVED),
    }
    changes = [
        {
            **shared,
            "version": row["version"] + 1,
            "modified": max(transaction.now, row["modified"]),
        }
        for row in rows
    ]
    if rows:
        values: dict[str, Any] = {name: bindparam(name) for name in changes[0]}
        statement = update(BILL).where(BILL.c.id == bindparam("bill_id")).values(values)
        found = [{**each, "bill_id": row["id"]} for row, each in zip(rows, changes, strict=True)]
        transaction.connection.execute(statement, found)
    for row, each in zip(rows, changes, strict=True):
        note_row_event(transaction, {**row, **each}, row)
    order_statements(transaction, [ApprovedBill(row["id"], row["account_id"]) for row in rows])
    return len(rows)


def pending_ids(reader: Reader, filters: BillFilters) -> list[str]:
    """The ids of those that `approve_pending` would approve."""
    return [row.id for row in reader.connection.execute(_pending(reader, filters))]


def _pending(reader: Reader, filters: BillFilters) -> Select[Any]:
    waiting = replace(filters, status=BillStatus.PENDING, locked=False)
    return select_bills(reader, waiting).order_by(BILL.c.created, BILL.c.id).limit(BATCH)


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
    columns = [BILL.c[name] for name in WaitingBill._fields]
    query = select(*columns, BILL.c.version).where(
        BILL.c.org == reader.org_id,
        BILL.c.status == BillStatus.PENDING.value,
        BILL.c.locked.is_(False),
        BILL.c.bill_date <= latest,
    )
    rows = reader.connection.execute(query.order_by(BILL.c.bill_date, BILL.c.id)).all()
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


class BillWork(NamedTuple):
    """A bill by what people did for it.

    Attributes:
        calculated_by: Who had it calculated as it is; None if nobody knows.
        memo_authors: Who changed the lines that people put on it.
        entity_ids: What it was made from.
        first_day: Of its period.
    """

    id: str
    account_code: str
    calculated_by: str | None
    memo_authors: frozenset[str]
    entity_ids: frozenset[str]
    first_day: date


def read_work(reader: Reader, ids: Iterable[str]) -> Iterator[BillWork]:
    """What people did for some bills, in no particular order; without those that are gone."""
    for some in chunks_of(dict.fromkeys(ids)):
        authors: dict[str, set[str]] = {}
        memos = select(BILL_MEMO.c.bill_id, BILL_MEMO.c.modified_by)
        for row in reader.connection.execute(memos.where(BILL_MEMO.c.bill_id.in_(some))):
            authors.setdefault(row.bill_id, set()).add(row.modified_by)
        same = BILL.c.calculation_id == BILL_CALCULATION.c.id
        columns = (BILL.c.id, BILL.c.body, BILL.c.pins, BILL_CALCULATION.c.created_by)
        query = select(*columns).select_from(BILL.outerjoin(BILL_CALCULATION, same))
        query = query.where(BILL.c.org == reader.org_id, BILL.c.id.in_(some))
        for row in reader.connection.execute(query):
            body, pins = wire.loads(row.body), wire.loads(row.pins)
            yield BillWork(
                id=row.id,
                account_code=str(body.get("accountCode", "")),
                calculated_by=row.created_by,
                memo_authors=frozenset(authors.get(row.id, ())),
                entity_ids=frozenset(pins.get("versions", ())),
                first_day=date.fromisoformat(body["startDate"]),
            )


def entities_changed_by(
    reader: Reader, author: str, kinds: Collection[type[Entity]], since: datetime
) -> dict[str, datetime]:
    """When somebody changed entities of some kinds last, by id, from an instant on."""
    table = ENTITY_HISTORY.c
    query = select(table.id, func.max(table.valid_from)).where(
        table.org == reader.org_id,
        table.valid_from >= since,
        table.author == author,
        table.kind.in_([each.__name__ for each in kinds]),
    )
    return dict(reader.connection.execute(query.group_by(table.id)).tuples().all())
