"""Many bills approved at once: those that wait for it, or that nothing speaks against by itself."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import date, datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, Select, bindparam, func, literal, select, update

from meterlake.model.bills.jobs import BILL_IDS, KIND
from meterlake.model.bills.requests import BillStatus
from meterlake.model.resources.events import BILL as BILL_RESOURCE
from meterlake.model.resources.events import UPDATED
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity
from meterlake.model.values.period import parse_instant
from meterlake.stores.state.billing.bills.bills import approval
from meterlake.stores.state.billing.bills.events import note_row_event
from meterlake.stores.state.billing.bills.lists import BillFilters, select_bills
from meterlake.stores.state.billing.statements.jobs import ApprovedBill, order_statements
from meterlake.stores.state.billing.stored_bills import BODY_END
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_CALCULATION, BILL_MEMO, ENTITY_HISTORY
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.events.event_tables import EVENT
from meterlake.stores.state.jobs.table import JOB, JobStatus

# Bills of one transaction: other writers of State wait for as long as it takes.
BATCH: Final = 400
_CHANGED: Final = f"{BILL_RESOURCE}.{UPDATED}"
# Where the body of an entity has the instant at which it ends.
_END: Final = "endDate"


def approve_pending(transaction: Transaction, filters: BillFilters) -> int:
    """Approve up to `BATCH` of the bills that filters mean; how many were approved.

    Bills that are approved or locked, and those that the lock date closes, are left as they are.
    """
    found_rows = transaction.connection.execute(_pending(transaction, filters).limit(BATCH))
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


def pending_ids(reader: Reader, filters: BillFilters, most: int | None = None) -> list[str]:
    """The ids of those that `approve_pending` approves: all of them, or so many that are next."""
    found = _pending(reader, filters).limit(most)
    return [row.id for row in reader.connection.execute(found)]


def _pending(reader: Reader, filters: BillFilters) -> Select[Any]:
    waiting = replace(filters, status=BillStatus.PENDING, locked=False)
    return select_bills(reader, waiting).order_by(BILL.c.created, BILL.c.id)


class WaitingBill(NamedTuple):
    """A bill that waits for approval.

    Attributes:
        job_id: The job that calculated it last.
        outdated_by: What left something else of its balances and commitments since; see
            `outdated_bills`.
    """

    id: str
    account_id: str
    bill_date: date
    frequency: str
    job_id: str | None
    outdated_by: str | None


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
        calculated_by: Who had it calculated last, also if nothing changed; None if nobody knows.
        memo_authors: Who changed the lines that people put on it.
        entity_ids: What it was made from.
        first_day: Of its period.
        end_day: The day after its last one.
    """

    id: str
    account_code: str
    calculated_by: str | None
    memo_authors: frozenset[str]
    entity_ids: frozenset[str]
    first_day: date
    end_day: date


def read_work(reader: Reader, ids: Iterable[str], nobody: Collection[str]) -> list[BillWork]:
    """What people did for some bills, in no particular order; without those that are gone.

    Args:
        reader: Where from.
        ids: The bills.
        nobody: Whose calculations do not count that change nothing, as those of schedules do not.
    """
    authors: dict[str, set[str]] = {}
    rows: list[Row[Any]] = []
    for some in chunks_of(dict.fromkeys(ids)):
        memos = select(BILL_MEMO.c.bill_id, BILL_MEMO.c.modified_by)
        for row in reader.connection.execute(memos.where(BILL_MEMO.c.bill_id.in_(some))):
            authors.setdefault(row.bill_id, set()).add(row.modified_by)
        query = _calculations().where(BILL.c.org == reader.org_id, BILL.c.id.in_(some))
        rows += reader.connection.execute(query)
    last = {row.id: row.last_by for row in rows if row.schedule_id is None}
    last = {id_: by for id_, by in last.items() if by is not None and by not in nobody}
    last |= _calculated_before(reader, [row for row in rows if row.id not in last], nobody)
    return [
        BillWork(
            id=row.id,
            account_code=str(wire.loads(row.body).get("accountCode", "")),
            calculated_by=last.get(row.id, row.content_by),
            memo_authors=frozenset(authors.get(row.id, ())),
            entity_ids=frozenset(wire.loads(row.pins).get("versions", ())),
            first_day=date.fromisoformat(wire.loads(row.body)["startDate"]),
            end_day=date.fromisoformat(wire.loads(row.body)[BODY_END]),
        )
        for row in rows
    ]


def _calculations() -> Select[Any]:
    """Bills with who had them calculated: as they are, and the last time."""
    columns = (
        *(BILL.c.id, BILL.c.body, BILL.c.pins, JOB.c.schedule_id, JOB.c.author.label("last_by")),
        BILL_CALCULATION.c.created_by.label("content_by"),
        func.coalesce(BILL_CALCULATION.c.created, BILL.c.created).label("content_at"),
    )
    content = BILL.outerjoin(BILL_CALCULATION, BILL.c.calculation_id == BILL_CALCULATION.c.id)
    return select(*columns).select_from(content.outerjoin(JOB, BILL.c.job_id == JOB.c.id))


def _calculated_before(
    reader: Reader, rows: Iterable[Row[Any]], nobody: Collection[str]
) -> dict[str, str]:
    """Who had bills calculated last, since they are as they are, that nobody calculated since."""
    left, found = {row.id: row.content_at for row in rows}, dict[str, str]()
    if not left:
        return found
    query = select(JOB.c.author, JOB.c.finished, JOB.c.result).where(
        *(JOB.c.org == reader.org_id, JOB.c.kind == KIND, JOB.c.schedule_id.is_(None)),
        *(JOB.c.author.not_in(nobody), JOB.c.status == JobStatus.COMPLETE.value),
        JOB.c.finished >= min(left.values()),
    )
    for job in reader.connection.execute(query.order_by(JOB.c.finished.desc())):
        ids = left.keys() & set(wire.loads(job.result or "{}").get(BILL_IDS, ()))
        found |= {id_: job.author for id_ in ids if job.finished >= left.pop(id_)}
    return found


class DatedChange(NamedTuple):
    """A change of an entity.

    Attributes:
        at: When somebody made it.
        since: From when on it matters, if it changed only when the entity ends; None if it
            matters at all times of the entity.
    """

    at: datetime
    since: datetime | None


def entities_changed_by(
    reader: Reader, author: str, kinds: Collection[type[Entity]], since: datetime
) -> dict[str, list[DatedChange]]:
    """What somebody changed of entities of some kinds from an instant on, by id."""
    table, before = ENTITY_HISTORY.c, ENTITY_HISTORY.alias().c
    was = select(before.body).where(
        *(before.org == table.org, before.kind == table.kind, before.id == table.id),
        before.version == table.version - 1,
    )
    query = select(
        table.id, table.valid_from, table.body, was.correlate(ENTITY_HISTORY).scalar_subquery()
    ).where(
        table.org == reader.org_id,
        table.valid_from >= since,
        table.author == author,
        table.kind.in_([each.__name__ for each in kinds]),
    )
    found: dict[str, list[DatedChange]] = {}
    for id_, at, new, old in reader.connection.execute(query).tuples():
        found.setdefault(id_, []).append(DatedChange(at, _matters_since(old, new)))
    return found


def _matters_since(old: str | None, new: str | None) -> datetime | None:
    """The earlier end of two bodies of an entity that differ in nothing else."""
    if old is None or new is None:
        return None
    bodies = [wire.loads(each) for each in (old, new)]
    ends = [each.pop(_END, None) for each in bodies]
    if bodies[0] != bodies[1]:
        return None
    known = [each for end in ends if end is not None and (each := parse_instant(end)) is not None]
    return min(known, default=None)
