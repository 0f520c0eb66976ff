"""The transactions of balances, what balances hold, and what their schedules will make."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Final

from meterlake.model.bills.ledger import PostingKind
from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransaction,
    BalanceTransactionSchedule,
    EntityType,
)
from meterlake.model.customers.schedules import charges, transactions
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY, response
from meterlake.model.rules import Proposed
from meterlake.model.rules.balances import pick_transaction_type
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, E, Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import zone
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.balances.ended_balances import settle_if_ended
from meterlake.pipeline.config.entities import Document, envelope, parse
from meterlake.stages.bill.credits.balances import Entry, entry_of, overdrawn, summarize
from meterlake.stages.bill.credits.funds import first_bill_date
from meterlake.stages.config.check import check_rules, codes_exist
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.credits.balances import (
    BalanceFilters,
    Booked,
    BookingCause,
    amounts,
    append,
    latest,
    list_balances,
    of_balance,
)
from meterlake.stores.state.billing.credits.source_events import note_amount
from meterlake.stores.state.billing.outdated_bills import mark_bills_from
from meterlake.stores.state.core.pages import Page, position_of, position_token
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_CAUSES: Final = {PrincipalType.SERVICEUSER: EntityType.SERVICE_USER}
# Filters of the list of transactions as columns.
TRANSACTION_FILTERS: Final = {
    "transactionTypeId": "transaction_type_id",
    "entityType": "entity_type",
    "entityId": "entity_id",
}
_DIGITS_MAX: Final = 9
# What only a stored entity has.
_ENVELOPE: Final = frozenset(
    {"version", "createdBy", "dtCreated", "lastModifiedBy", "dtLastModified"}
)


def cause_of(author: str) -> BookingCause:
    """Whoever asks as the cause of a transaction; who is no user of the organization has the author's name."""
    try:
        principal = Principal.of_author(author, "", "")
    except ValueError:
        return BookingCause(EntityType.USER, author)
    return BookingCause(_CAUSES.get(principal.type, EntityType.USER), principal.id)


def create_transaction(
    organization: Organization, author: str, balance_id: str, document: Document
) -> Document:
    """Book a transaction of a balance on behalf of somebody.

    Raises:
        NotFound: There is no such balance.
        Invalid: A field or a rule is broken, or the balance would be overdrawn and must not be.
    """
    entity = read(BalanceTransaction, document)
    with organization.transaction(author) as transaction:
        balance = transaction.get(Balance, balance_id)
        configuration = StoredConfiguration(transaction)
        currency = entity.currency_paid
        if currency is not None and configuration.find(Currency, currency) is None:
            raise Invalid("currencyPaid", currency, "it must be the code of an existing Currency")
        if entity.transaction_type_id is not None:
            pick_transaction_type(entity.transaction_type_id, configuration)
        new = Entry(entity.amount, entity.applied_date or transaction.now)
        if not _may_be_overdrawn(balance.entity, configuration):
            entries = _entries(balance.entity, of_balance(transaction, balance_id))
            if overdrawn(entries, new):
                rule = "it must be at most what the balance holds, unless allowOverdraft is set"
                raise Invalid("amount", new.amount, rule)
        booked = book(transaction, balance, entity, cause_of(author)).to_wire()
    settle_if_ended(organization, balance_id)
    return booked


def book(
    transaction: Transaction,
    balance: Record[Balance],
    entity: BalanceTransaction,
    cause: BookingCause,
    due: datetime | None = None,
) -> Booked:
    """Book a transaction of a balance, and note the event of what it holds.

    Bills of before that may draw something else with it are made again by the next job.
    """
    is_first = not latest(transaction, balance.id, {}, None, 1)
    before = None if is_first else amount_held(transaction, balance.id)
    booked = append(transaction, balance, entity, cause, due)
    note_amount(transaction, balance, before)
    if entity.amount:
        [organization] = transaction.all(OrganizationConfig)
        first = first_bill_date(
            balance.entity, entity.applied_date, zone(organization.entity.timezone)
        )
        mark_bills_from(transaction, balance.entity.account_id, first)
    return booked


def amount_held(transaction: Transaction, balance_id: str) -> Decimal:
    """What a balance holds now."""
    return amounts(transaction, [balance_id], transaction.now).get(balance_id, ZERO)


def _may_be_overdrawn(balance: Balance, configuration: Configuration) -> bool:
    if balance.allow_overdraft is not None:
        return balance.allow_overdraft
    return configuration.single(OrganizationConfig).entity.allow_negative_balances


def _entries(balance: Balance, booked: Iterable[Booked]) -> list[Entry]:
    """What came in and went out, without what was taken back, and without what expired."""
    postings = [each.posting for each in booked]
    taken_back = {each.reverses for each in postings}
    return [
        entry_of(each, balance)
        for each in postings
        if each.kind not in {PostingKind.REVERSAL, PostingKind.EXPIRY} and each.id not in taken_back
    ]


def list_transactions(
    organization: Organization,
    balance_id: str,
    wanted: Mapping[str, str],
    page: Page,
    *,
    with_reversed: bool = False,
) -> Document:
    """One page of a balance's transactions, the newest first.

    Args:
        organization: The organization.
        balance_id: The balance.
        wanted: Values by the names of `TRANSACTION_FILTERS`.
        page: Which part.
        with_reversed: Also those that were taken back, and what takes them back.

    Raises:
        NotFound: There is no such balance.
        Invalid: The token is none that a list gave.
    """
    columns = {TRANSACTION_FILTERS[name]: value for name, value in wanted.items()}
    with organization.reading() as reader:
        reader.get(Balance, balance_id)
        before = position_of(page.token) or None
        found = latest(
            reader, balance_id, columns, before, page.size + 1, standing=not with_reversed
        )
    listed = found[: page.size]
    token = position_token(listed[-1].sequence) if len(found) > page.size else None
    return envelope([each.to_wire() for each in listed], token)


def summarize_transactions(organization: Organization, balance_id: str) -> Document:
    """What came of a balance until now.

    Raises:
        NotFound: There is no such balance.
    """
    with organization.reading() as reader:
        balance = reader.get(Balance, balance_id).entity
        booked = of_balance(reader, balance_id)
    return summarize(balance, _entries(balance, booked), organization.now()).to_wire()


def list_page(organization: Organization, wanted: BalanceFilters, page: Page) -> Document:
    """One page of balances with what they hold, the newest first."""
    with organization.reading() as reader:
        records, token = list_balances(reader, wanted, page)
        configuration = StoredConfiguration(reader)
        found = [response(record, configuration) for record in records]
        return envelope(_with_amounts(reader, organization.stores, found), token)


def settled(organization: Organization, balance: Document) -> Document:
    """A balance that somebody changed, with what it holds now, after its end was settled if it has come."""
    settle_if_ended(organization, balance["id"])
    return with_amount(organization, balance)


def with_amount(organization: Organization, balance: Document) -> Document:
    """A balance as the standard verbs answer, with what it holds now."""
    with organization.reading() as reader:
        return _with_amounts(reader, organization.stores, [balance])[0]


def _with_amounts(reader: Reader, stores: Stores, balances: list[Document]) -> list[Document]:
    held = amounts(reader, [each["id"] for each in balances], stores.now())
    return [{**each, "amount": held.get(each["id"], ZERO)} for each in balances]


def preview_charges(
    organization: Organization, balance_id: str, document: Document, page: Page
) -> Document:
    """A schedule as it would be, and one page of the charges that it would make, in their order.

    Raises:
        NotFound: There is no such balance.
        Invalid: A field or a rule is broken, or the token is none that a preview gave.
    """

    def made(
        record: Record[BalanceChargeSchedule], configuration: Configuration, skip: int
    ) -> _Made:
        balance = configuration.get(Balance, balance_id).entity
        config = configuration.single(OrganizationConfig).entity
        for charge in charges(record.entity, balance, config, skip):
            yield {**charge.to_wire(), "scheduleId": record.id}

    return _preview(organization, (BalanceChargeSchedule, balance_id), document, (made, page))


def preview_transactions(
    organization: Organization, balance_id: str, document: Document, page: Page
) -> Document:
    """A schedule as it would be, and one page of its transactions, in their order.

    Raises:
        NotFound: There is no such balance.
        Invalid: A field or a rule is broken, or the token is none that a preview gave.
    """

    def made(
        record: Record[BalanceTransactionSchedule], configuration: Configuration, skip: int
    ) -> _Made:
        config = configuration.single(OrganizationConfig).entity
        for transaction in transactions(record.entity, config, skip):
            yield {**transaction, "entityId": record.id}

    kind = BalanceTransactionSchedule
    return _preview(organization, (kind, balance_id), document, (made, page))


_Made = Iterator[Document]


def _preview(
    organization: Organization,
    what: tuple[type[E], str],
    document: Document,
    wanted: tuple[Callable[[Record[E], Configuration, int], _Made], Page],
) -> Document:
    """The schedule itself, by all its rules, with a page of what it makes; nothing is stored."""
    (kind, balance_id), (made, page) = what, wanted
    skip = position_of(page.token)
    with organization.reading() as reader:
        reader.get(Balance, balance_id)
        # A record of what is not stored; its id follows from what it is.
        entity = parse(BY_ENTITY[kind], document, {"balanceId": balance_id})
        text = wire.dumps_sorted(entity.to_wire())
        now = organization.now()
        record = Record(
            derived_id(organization.id, type(entity).__name__, text), 1, entity, now, "", now, ""
        )
        configuration = StoredConfiguration(reader, (record,))
        codes_exist(record.entity, configuration)
        check_rules(Proposed(record.id, record.entity, None, configuration))
        items = list(islice(made(record, configuration, skip), page.size + 1))
        schedule = response(record, configuration)
    token = position_token(skip + page.size) if len(items) > page.size else None
    own = {name: value for name, value in schedule.items() if name not in _ENVELOPE}
    return {**own, **envelope(items[: page.size], token)}
