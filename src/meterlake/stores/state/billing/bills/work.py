"""Who made bills what they are: who calculated them, put lines on them, or set prices of theirs."""

from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime
from typing import NamedTuple

from sqlalchemy import func, select

from meterlake.model.values import wire
from meterlake.model.values.entity import Entity
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_CALCULATION, BILL_MEMO, ENTITY_HISTORY


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
