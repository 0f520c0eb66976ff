"""Bills that a calculation of other bills touches: those after them, those of their families, and plans on them."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, literal, or_, select

from meterlake.model.bills.bill import BilledTime
from meterlake.model.bills.jobs import BillRelation
from meterlake.model.bills.ledger import BillRank
from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.values.period import Period
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.stored_bills import BODY_END
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE, ENTITY_REFERENCE


class RelatedBill(NamedTuple):
    """A bill that has to do with others that are calculated.

    Attributes:
        is_closed: Whether it is locked, or the lock date closes it.
    """

    id: str
    account_id: str
    account_code: str
    bill_date: date
    currency: str
    total: Decimal
    status: BillStatus
    is_closed: bool
    relation: BillRelation


def related_bills(reader: Reader, ids: Sequence[str]) -> list[RelatedBill]:
    """The bills beside some bills that have to do with these, by account and bill date."""
    chosen = _read(reader, BILL.c.id.in_(ids))
    closed_until = closed_before(reader)
    found: dict[str, RelatedBill] = {}
    for relation, rows in (
        (BillRelation.DRAWS_AFTER, _later(reader, chosen)),
        (BillRelation.SAME_FAMILY, _of_families(reader, chosen)),
    ):
        for row in rows:
            if row.id not in ids:
                closed = closed_until is not None and row.end <= closed_until.isoformat()
                related = RelatedBill(
                    *(row.id, row.account_id, row.code or "", row.bill_date, row.currency),
                    *(Decimal(row.total), BillStatus(row.status), row.locked or closed, relation),
                )
                found.setdefault(row.id, related)
    return sorted(found.values(), key=lambda each: (each.account_code, each.bill_date, each.id))


def _later(reader: Reader, chosen: Sequence[Row[Any]]) -> Iterator[Row[Any]]:
    """The bills that draw after some bills from what these draw from, or may draw from."""
    ranks: dict[str, BillRank] = {}
    for row in chosen:
        rank = _rank(row)
        ranks[row.account_id] = min(ranks.get(row.account_id, rank), rank)
    paying = _accounts_with_sources(reader, ranks)
    for some in chunks_of(paying):
        first = min(ranks[each].bill_date for each in some)
        for row in _read(reader, BILL.c.account_id.in_(some), BILL.c.bill_date >= first):
            if _rank(row) > ranks[row.account_id]:
                yield row


def _rank(row: Row[Any]) -> BillRank:
    return BillRank.of(row.bill_date, row.frequency, row.interval, row.grouping_key)


def _accounts_with_sources(reader: Reader, account_ids: Collection[str]) -> list[str]:
    """Those of some accounts that have a balance or a commitment."""
    reference, found = ENTITY_REFERENCE.c, set[str]()
    for some in chunks_of(account_ids):
        query = select(reference.target_id).where(
            reference.org == reader.org_id,
            reference.target_kind == Account.__name__,
            reference.target_id.in_(some),
            reference.kind.in_((Balance.__name__, Commitment.__name__)),
        )
        found.update(reader.connection.execute(query.distinct()).scalars())
    return sorted(found)


def _of_families(reader: Reader, chosen: Sequence[Row[Any]]) -> Iterator[Row[Any]]:
    """The bills of the same days of parents and children: usage of a plan may be rated as one."""
    dates: defaultdict[str, set[date]] = defaultdict(set)
    for row in chosen:
        dates[row.account_id].add(row.bill_date)
    related: defaultdict[str, set[date]] = defaultdict(set)
    for some in chunks_of([*dates]):
        for child, parent in reader.connection.execute(_families(reader, some)).tuples():
            related[child] |= dates[parent]
            related[parent] |= dates[child]
    for some in chunks_of(related):
        days = {day for each in some for day in related[each]}
        for row in _read(reader, BILL.c.account_id.in_(some), BILL.c.bill_date.in_(days)):
            if row.bill_date in related[row.account_id]:
                yield row


def _families(reader: Reader, account_ids: Collection[str]) -> Select[Any]:
    """Children with their parents, one of which is among some accounts."""
    reference = ENTITY_REFERENCE.c
    return select(reference.id, reference.target_id).where(
        reference.org == reader.org_id,
        reference.kind == Account.__name__,
        reference.target_kind == Account.__name__,
        or_(reference.id.in_(account_ids), reference.target_id.in_(account_ids)),
    )


def _read(reader: Reader, *conditions: Any) -> Sequence[Row[Any]]:
    columns = (
        *(BILL.c.id, BILL.c.account_id, BILL.c.bill_date, BILL.c.frequency, BILL.c.interval),
        *(BILL.c.grouping_key, BILL.c.currency, BILL.c.total, BILL.c.status, BILL.c.locked),
        member_text(BILL.c.body, literal("accountCode")).label("code"),
        member_text(BILL.c.body, literal(BODY_END)).label("end"),
    )
    query = select(*columns).where(BILL.c.org == reader.org_id, *conditions)
    return reader.connection.execute(query).all()


def billed_plans(
    reader: Reader, account_ids: Collection[str], after: date
) -> dict[str, list[BilledTime]]:
    """The bills of some accounts after a day, by the ids of the account plans that stand on them."""
    plan_id = member_text(BILL_LINE.c.pins, literal("accountPlanId"))
    times = (
        member_text(BILL.c.body, literal(name)) for name in ("startDateTimeUTC", "endDateTimeUTC")
    )
    found: dict[str, list[BilledTime]] = defaultdict(list)
    for ids in chunks_of(account_ids):
        query = (
            select(plan_id, BILL.c.bill_date, *times)
            .join(BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id)
            .where(
                BILL.c.org == reader.org_id,
                BILL.c.account_id.in_(ids),
                BILL.c.bill_date > after,
                plan_id.is_not(None),
            )
            .distinct()
        )
        for id_, bill_date, start, end in reader.connection.execute(query):
            period = Period(*(datetime.fromisoformat(each) for each in (start, end)))
            found[id_].append(BilledTime(bill_date, period))
    return dict(found)
