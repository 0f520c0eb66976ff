"""Balances and their transactions; transactions are appended, listed and summed, never changed.

The functions take the reader or the transaction that `State` opens.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import ColumnElement, Row, func, insert, literal, select

from meterlake.model.accounts import Account
from meterlake.model.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.contracts import Contract
from meterlake.model.entity import Entity, Record
from meterlake.model.errors import StillReferenced
from meterlake.model.money import ZERO, exact, plain
from meterlake.model.period import format_instant
from meterlake.model.picklists import TransactionType
from meterlake.stores.state.core import pages
from meterlake.stores.state.core.json_columns import instant_text, member_text
from meterlake.stores.state.core.past import stream_rows
from meterlake.stores.state.core.reader import Reader, record_of
from meterlake.stores.state.core.stored_configuration import refers
from meterlake.stores.state.core.tables import BALANCE_TRANSACTION, ENTITY
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Cause:
    """Who or what made a transaction."""

    type: EntityType
    id: str


@dataclass(frozen=True, slots=True)
class Booked:
    """A transaction as it was booked; `sequence` counts those of its balance from 1."""

    sequence: int
    applied: datetime
    record: Record[BalanceTransaction]
    cause: Cause

    @property
    def amount(self) -> Decimal:
        """What it adds to the balance."""
        return self.record.entity.amount

    def to_wire(self) -> dict[str, Any]:
        """The transaction as `BalanceTransactionResponse`."""
        return {
            **self.record.to_wire(),
            "entityType": self.cause.type.value,
            "entityId": self.cause.id,
        }


@dataclass(frozen=True, slots=True)
class BalanceFilters:
    """Which balances are wanted; None is any.

    Attributes:
        contract_id: The contract that they are linked to; empty for none.
        ends_from: They end then or later; one that is carried over ends with its rollover.
        ends_before: They end earlier.
    """

    ids: tuple[str, ...] = ()
    account_id: str | None = None
    contract_id: str | None = None
    ends_from: datetime | None = None
    ends_before: datetime | None = None


def list_balances(
    reader: Reader, filters: BalanceFilters, page: pages.Page
) -> tuple[list[Record[Balance]], str | None]:
    """One page of balances, the newest first, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    query = select(ENTITY).where(
        ENTITY.c.org == reader.org_id,
        ENTITY.c.kind == Balance.__name__,
        *_conditions(reader.org_id, filters),
    )
    rows, token = pages.read(reader.connection, query, ENTITY.c.created, ENTITY.c.id, page)
    return [record_of(row) for row in rows], token


def _conditions(org_id: str, filters: BalanceFilters) -> Iterator[ColumnElement[bool]]:
    body = ENTITY.c.body
    ends = (instant_text(body, literal(name)) for name in ("rolloverEndDate", "endDate"))
    end = func.coalesce(*ends)
    if filters.ids:
        yield ENTITY.c.id.in_(filters.ids)
    if filters.account_id is not None:
        yield refers(org_id, Balance, "accountId", Account, [filters.account_id])
    if filters.contract_id == "":
        yield member_text(body, literal("contractId")).is_(None)
    elif filters.contract_id is not None:
        yield refers(org_id, Balance, "contractId", Contract, [filters.contract_id])
    if filters.ends_from is not None:
        yield end >= _sortable(filters.ends_from)
    if filters.ends_before is not None:
        yield end < _sortable(filters.ends_before)


def _sortable(instant: datetime) -> str:
    return format_instant(instant).removesuffix("Z")


def append(
    transaction: Transaction, balance_id: str, entity: BalanceTransaction, cause: Cause
) -> Booked:
    """Book a transaction of a balance; one without an applied date applies now."""
    table = BALANCE_TRANSACTION.c
    last = select(func.max(table.sequence)).where(
        table.org == transaction.org_id, table.balance_id == balance_id
    )
    row = {
        "org": transaction.org_id,
        "balance_id": balance_id,
        "sequence": (transaction.connection.execute(last).scalar() or 0) + 1,
        "id": transaction.new_id(),
        "amount": plain(entity.amount),
        "description": entity.description,
        "paid": None if entity.paid is None else plain(entity.paid),
        "currency_paid": entity.currency_paid,
        "transaction_type_id": entity.transaction_type_id,
        "applied": entity.applied_date or transaction.now,
        "transacted": entity.transaction_date,
        "entity_type": cause.type.value,
        "entity_id": cause.id,
        "created": transaction.now,
        "created_by": transaction.author,
    }
    transaction.connection.execute(insert(BALANCE_TRANSACTION), row)
    query = _all(transaction, balance_id).where(table.id == row["id"])
    return _booked_of_row(transaction.connection.execute(query).one())


def of_balance(reader: Reader, balance_id: str) -> list[Booked]:
    """All transactions of a balance, the oldest first."""
    query = _all(reader, balance_id).order_by(BALANCE_TRANSACTION.c.sequence)
    return [_booked_of_row(row) for row in reader.connection.execute(query)]


def latest(
    reader: Reader,
    balance_id: str,
    where: Mapping[str, str],
    before: int | None,
    count: int,
) -> list[Booked]:
    """The newest transactions of a balance.

    Args:
        reader: Where from.
        balance_id: Whose.
        where: Columns and the values that they must have.
        before: Only those with a lower sequence number.
        count: How many at most.
    """
    table = BALANCE_TRANSACTION.c
    query = _all(reader, balance_id).where(*(table[name] == value for name, value in where.items()))
    if before is not None:
        query = query.where(table.sequence < before)
    query = query.order_by(table.sequence.desc()).limit(count)
    return [_booked_of_row(row) for row in reader.connection.execute(query)]


def one_by_one(
    reader: Reader, since: datetime | None, at: datetime
) -> Iterator[tuple[str, Booked]]:
    """All transactions that were booked until an instant, each with the id of its balance.

    Args:
        reader: Where from.
        since: Only those that were booked from then on.
        at: Until when.
    """
    table = BALANCE_TRANSACTION.c
    query = select(BALANCE_TRANSACTION).where(table.org == reader.org_id, table.created <= at)
    if since is not None:
        query = query.where(table.created >= since)
    query = query.order_by(table.balance_id, table.sequence)
    for row in stream_rows(reader, query):
        yield row.balance_id, _booked_of_row(row)


def amounts(
    reader: Reader, balance_ids: Iterable[str], at: datetime, *, as_of: bool = False
) -> dict[str, Decimal]:
    """What balances hold at an instant: the sum of what has been applied until then.

    Args:
        reader: Where from.
        balance_ids: Which ones.
        at: When.
        as_of: Leave out what was booked later.
    """
    table = BALANCE_TRANSACTION.c
    query = select(table.balance_id, table.amount).where(
        table.org == reader.org_id, table.balance_id.in_(list(balance_ids)), table.applied <= at
    )
    if as_of:
        query = query.where(table.created <= at)
    sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for row in reader.connection.execute(query):
            sums[row.balance_id] += Decimal(row.amount)
    return dict(sums)


def refuse_booked_balance(reader: Reader, id: str) -> None:
    """Refuse to let go of a balance that transactions are booked on.

    Raises:
        StillReferenced: There is such a transaction.
    """
    _refuse_booked(reader, Balance, BALANCE_TRANSACTION.c.balance_id, id)


def refuse_booked_type(reader: Reader, id: str) -> None:
    """Refuse to let go of a transaction type that transactions name.

    Raises:
        StillReferenced: There is such a transaction.
    """
    _refuse_booked(reader, TransactionType, BALANCE_TRANSACTION.c.transaction_type_id, id)


def _refuse_booked(reader: Reader, kind: type[Entity], column: ColumnElement[Any], id: str) -> None:
    table = BALANCE_TRANSACTION.c
    query = select(table.id).where(table.org == reader.org_id, column == id).limit(1)
    found = reader.connection.execute(query).scalar()
    if found is not None:
        raise StillReferenced(kind.__name__, id, f"transaction {found!r}")


def _all(reader: Reader, balance_id: str) -> Any:
    table = BALANCE_TRANSACTION.c
    return select(BALANCE_TRANSACTION).where(
        table.org == reader.org_id, table.balance_id == balance_id
    )


def _booked_of_row(row: Row[Any]) -> Booked:
    entity = BalanceTransaction(
        amount=Decimal(row.amount),
        description=row.description,
        paid=None if row.paid is None else Decimal(row.paid),
        currency_paid=row.currency_paid,
        transaction_type_id=row.transaction_type_id,
        applied_date=row.applied,
        transaction_date=row.transacted,
    )
    record = Record(row.id, 1, entity, row.created, row.created_by, row.created, row.created_by)
    return Booked(
        row.sequence, row.applied, record, Cause(EntityType(row.entity_type), row.entity_id)
    )
