"""Balances and their transactions, which are the postings of the ledger that are about a balance.

Transactions are appended, listed and summed, never changed.

The functions take the reader or the transaction that `State` opens.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    and_,
    case,
    func,
    insert,
    literal,
    not_,
    or_,
    select,
)

from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType, Posting, PostingKind
from meterlake.model.configuration.organization import TransactionType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.errors import StillReferenced
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.model.values.period import Period, format_instant
from meterlake.stores.state.billing.credits.ledger import NewPosting, is_standing, post
from meterlake.stores.state.core import pages
from meterlake.stores.state.core.entity_history import stream_rows
from meterlake.stores.state.core.json_columns import instant_text, member_text
from meterlake.stores.state.core.listing import read_page
from meterlake.stores.state.core.postings import posting_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.stored_configuration import refers
from meterlake.stores.state.core.tables import BALANCE_NOTE, ENTITY, POSTING, SCHEDULED_CHARGE
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class BookingCause:
    """Who or what made a transaction."""

    type: EntityType
    id: str


@dataclass(frozen=True, slots=True)
class Booked:
    """A transaction as it was booked; those of a balance have rising sequence numbers."""

    posting: Posting
    record: Record[BalanceTransaction]
    cause: BookingCause

    @property
    def sequence(self) -> int:
        """Its place among all postings."""
        return self.posting.sequence

    @property
    def applied(self) -> datetime:
        """When it was applied; when it was booked if nobody said so."""
        return self.posting.applied or self.posting.created

    @property
    def amount(self) -> Decimal:
        """What it adds to the balance."""
        return self.record.entity.amount

    def to_wire(self) -> dict[str, Any]:
        """The transaction as `BalanceTransactionResponse`."""
        taken_back = self.posting.reverses
        return {
            **self.record.to_wire(),
            "entityType": self.cause.type.value,
            "entityId": self.cause.id,
            **({} if taken_back is None else {"reverses": taken_back}),
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
    """One page of balances, the newest first or as it asks, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    return read_page(reader, BY_ENTITY[Balance], _conditions(reader.org_id, filters), page)


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
    transaction: Transaction,
    balance: Record[Balance],
    entity: BalanceTransaction,
    cause: BookingCause,
    due: datetime | None = None,
) -> Booked:
    """Book a transaction of a balance; one without an applied date applies now.

    Args:
        transaction: Where to.
        balance: Which one.
        entity: Above 0 it comes from the customer, below it goes there.
        cause: Who made it.
        due: When it was due, if a schedule made it.
    """
    customer = LedgerAccount(LedgerAccountType.CUSTOMER, balance.entity.account_id)
    own = LedgerAccount(LedgerAccountType.BALANCE, balance.id)
    is_debit = entity.amount < 0
    posting = NewPosting(
        from_account=own if is_debit else customer,
        to_account=customer if is_debit else own,
        amount=entity.amount.copy_abs(),
        currency=balance.entity.currency,
        kind=PostingKind.MANUAL if is_debit else PostingKind.CREDIT,
        source_id=balance.id,
        applied=entity.applied_date,
    )
    [id_] = post(transaction, [posting])
    note = {
        "id": id_,
        "org": transaction.org_id,
        "description": entity.description,
        "paid": None if entity.paid is None else plain(entity.paid),
        "currency_paid": entity.currency_paid,
        "transaction_type_id": entity.transaction_type_id,
        "transacted": entity.transaction_date,
        "entity_type": cause.type.value,
        "entity_id": cause.id,
        "due": due,
    }
    transaction.connection.execute(insert(BALANCE_NOTE), note)
    query = _all(transaction, balance.id).where(POSTING.c.id == id_)
    return _booked_of_row(transaction.connection.execute(query).one())


def of_balance(reader: Reader, balance_id: str) -> list[Booked]:
    """All transactions of a balance, the oldest first."""
    query = _all(reader, balance_id).order_by(POSTING.c.sequence)
    return [_booked_of_row(row) for row in reader.connection.execute(query)]


def latest(
    reader: Reader,
    balance_id: str,
    where: Mapping[str, str],
    before: int | None,
    count: int,
    *,
    standing: bool = False,
) -> list[Booked]:
    """The newest transactions of a balance.

    Args:
        reader: Where from.
        balance_id: Whose.
        where: Columns and the values that they must have.
        before: Only those with a lower sequence number.
        count: How many at most.
        standing: Leave out what was taken back, and what takes it back.
    """
    query = _all(reader, balance_id)
    if standing:
        query = query.where(POSTING.c.kind != PostingKind.REVERSAL.value, is_standing())
    for name, value in where.items():
        column = _COMPUTED[name] if name in _COMPUTED else BALANCE_NOTE.c[name]
        query = query.where(column == value)
    if before is not None:
        query = query.where(POSTING.c.sequence < before)
    query = query.order_by(POSTING.c.sequence.desc()).limit(count)
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
    query = _TRANSACTIONS.where(POSTING.c.org == reader.org_id, POSTING.c.created <= at)
    if since is not None:
        query = query.where(POSTING.c.created >= since)
    query = query.order_by(POSTING.c.source_id, POSTING.c.sequence)
    for row in stream_rows(reader, query):
        yield row.source_id, _booked_of_row(row)


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
    query = select(POSTING).where(
        POSTING.c.org == reader.org_id,
        POSTING.c.source_id.in_(list(balance_ids)),
        func.coalesce(POSTING.c.applied, POSTING.c.created) <= at,
    )
    if as_of:
        query = query.where(POSTING.c.created <= at)
    sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for row in reader.connection.execute(query):
            sums[row.source_id] += posting_of(row).change
    return dict(sums)


def refuse_booked_balance(reader: Reader, id: str) -> None:
    """Refuse to let go of a balance that transactions are booked on.

    Raises:
        StillReferenced: There is such a transaction.
    """
    _refuse_booked(reader, Balance, POSTING.c.source_id == id, id)


def refuse_drawn_commitment(reader: Reader, id: str) -> None:
    """Refuse to let go of a commitment that bills drew from.

    Raises:
        StillReferenced: There is such a posting.
    """
    _refuse_booked(reader, Commitment, POSTING.c.source_id == id, id)


def refuse_booked_type(reader: Reader, id: str) -> None:
    """Refuse to let go of a transaction type that transactions name.

    Raises:
        StillReferenced: There is such a transaction.
    """
    _refuse_booked(reader, TransactionType, BALANCE_NOTE.c.transaction_type_id == id, id)


def _refuse_booked(
    reader: Reader, kind: type[Entity], condition: ColumnElement[bool], id: str
) -> None:
    query = (
        select(POSTING.c.id)
        .outerjoin(BALANCE_NOTE, BALANCE_NOTE.c.id == POSTING.c.id)
        .where(POSTING.c.org == reader.org_id, condition)
        .limit(1)
    )
    found = reader.connection.execute(query).scalar()
    if found is not None:
        raise StillReferenced(kind.__name__, id, f"transaction {found!r}")


# What nobody wrote a note to comes from a bill, or from the end of a balance.
_ENTITY_TYPE: Final = func.coalesce(
    BALANCE_NOTE.c.entity_type,
    case((POSTING.c.bill_id.is_(None), EntityType.SCHEDULER.value), else_=EntityType.BILL.value),
)
_ENTITY_ID: Final = func.coalesce(BALANCE_NOTE.c.entity_id, POSTING.c.bill_id, POSTING.c.source_id)
_COMPUTED: Final[Mapping[str, ColumnElement[Any]]] = {
    "entity_type": _ENTITY_TYPE,
    "entity_id": _ENTITY_ID,
}
_OF_BALANCE: Final = (LedgerAccountType.BALANCE, LedgerAccountType.ROLLOVER)
_IS_OF_COMMITMENT: Final = or_(
    *(
        column.startswith(f"{LedgerAccountType.COMMITMENT}:")
        for column in (POSTING.c.from_account, POSTING.c.to_account)
    )
)
# What goes from a balance to its rollover, or back, stays in the balance.
_IS_CARRIED: Final = and_(
    *(
        or_(*(column.startswith(f"{kind}:") for kind in _OF_BALANCE))
        for column in (POSTING.c.from_account, POSTING.c.to_account)
    )
)
_TRANSACTIONS: Final = (
    select(
        POSTING,
        BALANCE_NOTE.c.description,
        BALANCE_NOTE.c.paid,
        BALANCE_NOTE.c.currency_paid,
        BALANCE_NOTE.c.transaction_type_id,
        BALANCE_NOTE.c.transacted,
        _ENTITY_TYPE.label("entity_type"),
        _ENTITY_ID.label("entity_id"),
    )
    .outerjoin(BALANCE_NOTE, BALANCE_NOTE.c.id == POSTING.c.id)
    .where(not_(_IS_CARRIED), not_(_IS_OF_COMMITMENT))
)


def _all(reader: Reader, balance_id: str) -> Select[Any]:
    return _TRANSACTIONS.where(POSTING.c.org == reader.org_id, POSTING.c.source_id == balance_id)


def _booked_of_row(row: Row[Any]) -> Booked:
    posting = posting_of(row)
    entity = BalanceTransaction(
        amount=posting.change,
        description=row.description,
        paid=None if row.paid is None else Decimal(row.paid),
        currency_paid=row.currency_paid,
        transaction_type_id=row.transaction_type_id,
        applied_date=posting.applied or posting.created,
        transaction_date=row.transacted,
    )
    record = Record(row.id, 1, entity, row.created, row.created_by, row.created, row.created_by)
    return Booked(posting, record, BookingCause(EntityType(row.entity_type), row.entity_id))


def note_charge(
    transaction: Transaction, schedule_id: str, charge_id: str, service: Period, due: datetime
) -> None:
    """Note that a schedule made a charge, in the transaction that stores the charge.

    Args:
        transaction: Where to.
        schedule_id: The schedule.
        charge_id: The charge.
        service: What it is for.
        due: When it was due.
    """
    row = {
        "charge_id": charge_id,
        "org": transaction.org_id,
        "schedule_id": schedule_id,
        "service_start": service.start,
        "service_end": service.end,
        "due": due,
        "created": transaction.now,
    }
    transaction.connection.execute(insert(SCHEDULED_CHARGE), row)
