"""What was reported to marketplaces: in whole cents, settled by difference, hour by hour."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Final

from sqlalchemy import Row, delete, func, insert, or_, select, update

from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.core.pages import position_of, position_token
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.integrations.run_tables import MARKETPLACE_BILL, MARKETPLACE_RECORD
from meterlake.stores.state.integrations.runs import REPLAY_MARK

HOUR: Final = timedelta(hours=1)
# Marketplaces refuse what happened six hours ago or earlier.
HOURS_BACK: Final = 5
CURRENCY: Final = "USD"
_AGE_MAX: Final = (HOURS_BACK + 1) * HOUR
_CENTS: Final = 100
# What is stored of a record, beside its organization.
_NAMES: Final = tuple(each.name for each in MARKETPLACE_RECORD.c if each.name != "org")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketplaceRecord:
    """One record.

    Attributes:
        dimension: The product's code, `-` and the dimension.
        quantity: In cents.
        accepted: Whether the marketplace has taken it.
        is_doubtful: Whether it was written down by an earlier try, whose answer nobody knows.
    """

    customer: str
    dimension: str
    hour: datetime
    system: str
    account_id: str
    bill_id: str
    run_key: str
    quantity: int
    accepted: bool = False
    is_doubtful: bool = False

    def is_too_old(self, now: datetime) -> bool:
        """Whether the marketplace refuses it by now."""
        return now - self.hour >= _AGE_MAX


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Nothing can be reported now.

    Attributes:
        cents: What is to be reported; less than zero if too much was.
        wait: How long until the next hour; None if there is nothing to wait for.
        is_pending: Whether another record of the account has no answer yet.
    """

    cents: int
    wait: timedelta | None = None
    is_pending: bool = False


def plan_record(
    transaction: Transaction, wanted: MarketplaceRecord, now: datetime, *, is_sent: bool = True
) -> MarketplaceRecord | Unsettled:
    """Write down what a run is to report: what its account owes beyond what was reported.

    A record that the same run wrote down earlier, and whose answer nobody knows, is sent as it was:
    marketplaces take the same record twice as one.

    Args:
        transaction: Where records are written.
        wanted: What the run is about.
        now: When it is reported.
        is_sent: Whether the bill counts from now on; false of a bill that is deleted, or waits.
    """
    known = _record_of_run(transaction, wanted.run_key) or _repeated(transaction, wanted, now)
    if known is not None:
        return replace(known, is_doubtful=True)
    if is_sent:
        _add_bill(transaction, wanted)
    column = MARKETPLACE_RECORD.c
    query = select(func.sum(column.quantity)).where(
        column.org == transaction.org_id,
        column.account_id == wanted.account_id,
        column.dimension == wanted.dimension,
    )
    reported = int(transaction.connection.execute(query).scalar() or 0)
    cents = _owed(transaction, wanted) - reported
    if cents <= 0:
        return Unsettled(cents, is_pending=_has_pending(transaction, wanted, now))
    hour = _free_hour(transaction, wanted, now)
    if hour is None:
        return Unsettled(cents, _hour_of(now) + HOUR - now)
    planned = replace(wanted, hour=hour, quantity=cents)
    row = {name: getattr(planned, name) for name in _NAMES}
    transaction.connection.execute(insert(MARKETPLACE_RECORD), {"org": transaction.org_id, **row})
    return planned


def accept_record(transaction: Transaction, record: MarketplaceRecord) -> None:
    """Write down that the marketplace has taken a record."""
    statement = update(MARKETPLACE_RECORD).where(*_same(transaction.org_id, record))
    transaction.connection.execute(statement.values(accepted=True))


def forget_record(transaction: Transaction, record: MarketplaceRecord) -> None:
    """Have a record be as if it had never been: the marketplace has refused it."""
    transaction.connection.execute(
        delete(MARKETPLACE_RECORD).where(*_same(transaction.org_id, record))
    )


def list_reports(
    reader: Reader,
    filters: dict[str, str],
    since: date | None,
    size: int,
    token: str | None,
) -> tuple[list[tuple[str, list[MarketplaceRecord]]], str | None]:
    """One page of bills with what was reported of them, and the token of the next page.

    Args:
        reader: Of the organization.
        filters: Columns and their values.
        since: Only bills of this day or later ones.
        size: The most bills of the page.
        token: Of the page before.
    """
    column, start = MARKETPLACE_RECORD.c, position_of(token)
    query = (
        select(column.bill_id)
        .where(column.org == reader.org_id, column.accepted)
        .group_by(column.bill_id)
        .order_by(func.max(column.hour).desc(), column.bill_id)
    )
    for name, value in filters.items():
        query = query.where(column[name] == value)
    if since is not None:
        days = select(BILL.c.id).where(BILL.c.org == reader.org_id, BILL.c.bill_date >= since)
        query = query.where(column.bill_id.in_(days))
    ids = list(reader.connection.execute(query.offset(start).limit(size + 1)).scalars())
    found = [(id_, _records_of_bill(reader, id_)) for id_ in ids[:size]]
    return found, position_token(start + size) if len(ids) > size else None


def _records_of_bill(reader: Reader, bill_id: str) -> list[MarketplaceRecord]:
    column = MARKETPLACE_RECORD.c
    mine = (column.org == reader.org_id, column.bill_id == bill_id, column.accepted)
    query = select(MARKETPLACE_RECORD).where(*mine).order_by(column.hour)
    return [_record_of(row) for row in reader.connection.execute(query)]


def _record_of_run(reader: Reader, run_key: str) -> MarketplaceRecord | None:
    column = MARKETPLACE_RECORD.c
    query = select(MARKETPLACE_RECORD).where(column.org == reader.org_id, column.run_key == run_key)
    row = reader.connection.execute(query).first()
    return None if row is None else _record_of(row)


def _repeated(
    transaction: Transaction, wanted: MarketplaceRecord, now: datetime
) -> MarketplaceRecord | None:
    """The record without an answer that a replayed run, or a replay of it, wrote down.

    Who replays a run whose record is too old says that it has not arrived: it is forgotten.
    """
    column, (original, mark, _) = MARKETPLACE_RECORD.c, wanted.run_key.partition(REPLAY_MARK)
    if not mark:
        return None
    same = or_(
        column.run_key == original, column.run_key.startswith(original + mark, autoescape=True)
    )
    unanswered = (column.org == transaction.org_id, ~column.accepted, same)
    rows = transaction.connection.execute(select(MARKETPLACE_RECORD).where(*unanswered))
    found = [_record_of(row) for row in rows]
    for each in found:
        if each.is_too_old(now):
            forget_record(transaction, each)
    return next((each for each in found if not each.is_too_old(now)), None)


def _add_bill(transaction: Transaction, wanted: MarketplaceRecord) -> None:
    facts = {name: getattr(wanted, name) for name in ("dimension", "bill_id")}
    row = {"org": transaction.org_id, **facts}
    known = select(MARKETPLACE_BILL).filter_by(**row)
    if transaction.connection.execute(known).first() is None:
        values = {**row, "account_id": wanted.account_id}
        transaction.connection.execute(insert(MARKETPLACE_BILL), values)


def _owed(reader: Reader, wanted: MarketplaceRecord) -> int:
    """The cents of all bills of the account that were sent, this one among them."""
    column = MARKETPLACE_BILL.c
    sent = select(column.bill_id).where(
        column.org == reader.org_id,
        column.account_id == wanted.account_id,
        column.dimension == wanted.dimension,
    )
    query = select(BILL.c.total).where(
        BILL.c.org == reader.org_id, BILL.c.currency == CURRENCY, BILL.c.id.in_(sent)
    )
    totals: Sequence[str] = reader.connection.execute(query).scalars().all()
    total = sum((Decimal(each) for each in totals), Decimal())
    # Fractions of a cent stay until they are a cent.
    return int((total * _CENTS).to_integral_value(ROUND_FLOOR))


def _has_pending(reader: Reader, wanted: MarketplaceRecord, now: datetime) -> bool:
    """Whether a record of the account may still arrive that has no answer yet."""
    column = MARKETPLACE_RECORD.c
    query = select(column.hour).where(
        column.org == reader.org_id,
        column.account_id == wanted.account_id,
        column.dimension == wanted.dimension,
        ~column.accepted,
        column.hour > now - _AGE_MAX,
    )
    return reader.connection.execute(query).first() is not None


def _free_hour(reader: Reader, wanted: MarketplaceRecord, now: datetime) -> datetime | None:
    """The newest hour that has no record of the customer and the dimension."""
    column = MARKETPLACE_RECORD.c
    query = select(column.hour).where(
        column.org == reader.org_id,
        column.customer == wanted.customer,
        column.dimension == wanted.dimension,
        column.hour > now - _AGE_MAX,
    )
    taken = set(reader.connection.execute(query).scalars())
    hours = (_hour_of(now) - number * HOUR for number in range(HOURS_BACK))
    return next((hour for hour in hours if hour not in taken), None)


def _hour_of(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0)


def _same(org_id: str, record: MarketplaceRecord) -> tuple[Any, ...]:
    column = MARKETPLACE_RECORD.c
    keys = ("customer", "dimension", "hour")
    return (column.org == org_id, *(column[name] == getattr(record, name) for name in keys))


def _record_of(row: Row[Any]) -> MarketplaceRecord:
    return MarketplaceRecord(**{name: getattr(row, name) for name in _NAMES})
