"""Balances as people name them: by account and code; and top-ups that they order."""

from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import Any, Final

from meterlake.model.configuration.organization import OrganizationConfig, TransactionType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.period import local_date, zone
from meterlake.pipeline.billing.balances.balances import (
    create_transaction,
    list_page,
    list_transactions,
    with_amount,
)
from meterlake.pipeline.config.entities import Document, ResourceRef, retrieve
from meterlake.pipeline.config.named_entities import find_among, find_named
from meterlake.stages.config.days import begin_days
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.credits.balances import BalanceFilters
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class TopUpOrder:
    """Money for a balance; below zero it leaves it.

    Attributes:
        paid: What the customer paid for it.
        type: The code, the name or the id of a transaction type.
        applied: The day or the instant from which on it counts; if None, from the start of the
            balance.
    """

    amount: Decimal
    description: str | None = None
    paid: Decimal | None = None
    type: str | None = None
    applied: str | None = None


def find_balance(organization: Organization, account: str, name: str) -> str:
    """The id of a balance of an account.

    Raises:
        NotFound: There is no such account, or it has no such balance.
        Invalid: Several have the name.
    """
    with organization.reading() as reader:
        owner = find_named(reader, Account, account)
        return find_among(reader, BY_ENTITY[Balance], [owner.entity.code, name]).id


def list_named(organization: Organization, account: str | None, limit: int) -> list[Document]:
    """The newest balances with what they hold and the codes of their accounts; of an account, or all.

    Raises:
        NotFound: There is no such account.
    """
    with organization.reading() as reader:
        owner = None if account is None else find_named(reader, Account, account).id
    found: list[Document] = []
    token: str | None = None
    while len(found) < limit:
        page = Page(min(_PAGE, limit - len(found)), token)
        listed = list_page(organization, BalanceFilters(account_id=owner), page)
        found += listed["data"]
        token = listed.get("nextToken")
        if token is None:
            break
    return _with_accounts(organization, found)


def shown_balance(organization: Organization, id: str) -> Document:
    """A balance with what it holds and the code of its account."""
    ref = ResourceRef(BY_ENTITY[Balance], {}, id)
    [found] = _with_accounts(organization, [with_amount(organization, retrieve(organization, ref))])
    return found


def list_transactions_of(organization: Organization, id: str, limit: int) -> list[Document]:
    """The newest transactions of a balance."""
    found: list[Document] = []
    token: str | None = None
    while len(found) < limit:
        page = Page(min(_PAGE, limit - len(found)), token)
        listed = list_transactions(organization, id, {}, page)
        found += listed["data"]
        token = listed.get("nextToken")
        if token is None:
            break
    return found


def order_top_up(
    organization: Organization, author: str, balance_id: str, order: TopUpOrder
) -> Document:
    """Book money into a balance; answers with the transaction, as the API does.

    Raises:
        NotFound: There is no such balance or transaction type.
        Invalid: A field or a rule is broken, or the balance would be overdrawn and must not be.
    """
    type_id = None
    with organization.reading() as reader:
        if order.type is not None:
            type_id = find_named(reader, TransactionType, order.type).id
        local = _zone(reader)
    given: dict[str, Any] = {
        "amount": order.amount,
        "description": order.description,
        "paid": order.paid,
        "transactionTypeId": type_id,
        "appliedDate": order.applied,
    }
    document = {name: value for name, value in given.items() if value is not None}
    document = begin_days(BalanceTransaction, document, local)
    return create_transaction(organization, author, balance_id, document)


def _with_accounts(organization: Organization, balances: list[Document]) -> list[Document]:
    """Balances with the codes of their accounts, and their days in the organization's zone."""
    with organization.reading() as reader:
        names = by_id(reader, sorted({each["accountId"] for each in balances}))
        local = _zone(reader)
    return [
        each
        | {
            "account": names[each["accountId"]].code,
            "start": local_date(each["startDate"], local),
            "end": local_date(each["endDate"], local),
        }
        for each in balances
    ]


def _zone(reader: Reader) -> tzinfo:
    return zone(StoredConfiguration(reader).single(OrganizationConfig).entity.timezone)
