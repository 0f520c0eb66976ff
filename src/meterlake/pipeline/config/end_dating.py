"""Ending together what an account or a contract has, and replacing an account plan by another one.

What ends by days (contracts, prepayments) ends with the day in which the instant falls in the
organization's time zone; the end is exclusive, so that it never ends later than asked for.
"""

from collections.abc import Iterable
from datetime import date, datetime, tzinfo
from typing import Any, Final

from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.plans import Plan, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import (
    Account,
    AccountPlan,
    BillingEntity,
    EndDateBillingEntities,
)
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.resources import BY_ENTITY
from meterlake.model.scopes.plan_fields import plan_ids_of
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import format_instant, local_date, zone
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import (
    Document,
    create_in,
    entity_document,
    parse,
    single,
    update_in,
)
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Transaction
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# A contract ends after what is under it.
_ORDER: Final = (
    BillingEntity.ACCOUNTPLAN,
    BillingEntity.PREPAYMENT,
    BillingEntity.PRICINGS,
    BillingEntity.COUNTER_PRICINGS,
    BillingEntity.CONTRACT,
)

_Found = dict[BillingEntity, list[Record[Any]]]


def end_account(
    organization: Organization, author: str, account_id: str, document: Document
) -> Document:
    """End what an account has, as `EndDateBillingEntities` says.

    Prices are those of plans that were made for the account.

    Returns:
        The ids of what was changed and of what could not be, by kind. What ends earlier anyway
        is neither.

    Raises:
        NotFound: There is no such account.
        Invalid: The document breaks a rule.
    """
    wish = read(EndDateBillingEntities, document)
    tz = _zone(organization)
    with organization.transaction(author) as transaction:
        configuration = StoredConfiguration(transaction)
        accounts = [configuration.get(Account, account_id)]
        if wish.apply_to_children:
            accounts += configuration.where(Account, "parent_account_id", account_id)
        found: _Found = {}
        for account in accounts:
            plan_ids = [plan.id for plan in configuration.where(Plan, "account_id", account.id)]
            of_account: _Found = {
                BillingEntity.CONTRACT: configuration.where(Contract, "account_id", account.id),
                BillingEntity.ACCOUNTPLAN: configuration.where(
                    AccountPlan, "account_id", account.id
                ),
                BillingEntity.PREPAYMENT: configuration.where(Commitment, "account_id", account.id),
                **_prices(plan_ids, configuration),
            }
            for kind, records in of_account.items():
                found.setdefault(kind, []).extend(records)
        return _end(_Ending(organization.stores, transaction, wish, tz), found)


def end_contract(
    organization: Organization, author: str, contract_id: str, document: Document
) -> Document:
    """End what is under a contract, and the contract itself if it is among the kinds.

    Returns:
        See `end_account`.

    Raises:
        NotFound: There is no such contract.
        Invalid: The document breaks a rule.
    """
    wish = read(EndDateBillingEntities, document)
    tz = _zone(organization)
    with organization.transaction(author) as transaction:
        configuration = StoredConfiguration(transaction)
        contract = configuration.get(Contract, contract_id)
        owner = contract.entity.account_id
        account_plans: list[Record[Any]] = [
            each
            for each in configuration.where(AccountPlan, "contract_id", contract.id)
            if wish.apply_to_children or each.entity.account_id == owner
        ]
        commitments: list[Record[Any]] = [
            each
            for each in configuration.where(Commitment, "contract_id", contract.id)
            if wish.apply_to_children or each.entity.account_id == owner
        ]
        plan_ids = dict.fromkeys(
            plan_id
            for each in account_plans
            for plan_id in plan_ids_of(each.entity, configuration)
            if configuration.get(Plan, plan_id).entity.account_id is not None
        )
        found = {
            BillingEntity.CONTRACT: [contract],
            BillingEntity.ACCOUNTPLAN: account_plans,
            BillingEntity.PREPAYMENT: commitments,
            **_prices(plan_ids, configuration),
        }
        return _end(_Ending(organization.stores, transaction, wish, tz), found)


def _zone(organization: Organization) -> tzinfo:
    return zone(single(organization, OrganizationConfig).timezone)


def _prices(plan_ids: Iterable[str], configuration: Configuration) -> _Found:
    ids = list(plan_ids)
    return {
        BillingEntity.PRICINGS: [
            each for plan_id in ids for each in configuration.where(Pricing, "plan_id", plan_id)
        ],
        BillingEntity.COUNTER_PRICINGS: [
            each
            for plan_id in ids
            for each in configuration.where(CounterPricing, "plan_id", plan_id)
        ],
    }


class _Ending:
    """One wish as it is carried out, and what came of it."""

    def __init__(
        self, stores: Stores, transaction: Transaction, wish: EndDateBillingEntities, tz: tzinfo
    ) -> None:
        self.stores = stores
        self.transaction = transaction
        self.wish = wish
        self.day = local_date(wish.end_date, tz)
        self.updated: dict[str, list[str]] = {}
        self.failed: dict[str, list[str]] = {}

    def end(self, kind: BillingEntity, record: Record[Any]) -> None:
        """End one entity, unless it ends by then anyway."""
        by_day = kind in {BillingEntity.CONTRACT, BillingEntity.PREPAYMENT}
        end: date | datetime = self.day if by_day else self.wish.end_date
        if record.entity.end_date is not None and record.entity.end_date <= end:
            return
        ended = record.entity.model_copy(update={"end_date": end})
        try:
            update_in(self.transaction, self.stores, record, record.version, ended)
        except (Invalid, Conflict):
            self.failed.setdefault(kind.value, []).append(record.id)
        else:
            self.updated.setdefault(kind.value, []).append(record.id)

    def answer(self) -> Document:
        """The answer of the wire."""
        updated, failed = (sum(map(len, each.values())) for each in (self.updated, self.failed))
        message = f"{updated} entities end at {format_instant(self.wish.end_date)}"
        if failed:
            message += f"; {failed} could not be changed"
        return {
            "statusMessage": message,
            "updatedEntities": self.updated,
            "failedEntities": self.failed,
        }


def _end(ending: _Ending, found: _Found) -> Document:
    for kind in _ORDER:
        if kind in ending.wish.billing_entities:
            for record in found.get(kind, ()):
                ending.end(kind, record)
    return ending.answer()


def replace_account_plan(
    organization: Organization, author: str, id: str, document: Document
) -> Document:
    """End an account plan at the start of another one, and create that one; both or none.

    The document is that of the new account plan, which is for the same account.

    Raises:
        NotFound: There is no such account plan.
        Invalid: A rule is broken, or the new one does not start while the old one is active.
    """
    resource = BY_ENTITY[AccountPlan]
    new: AccountPlan = parse(resource, document, {})
    with organization.transaction(author) as transaction:
        before = transaction.get(AccountPlan, id)
        if new.account_id != before.entity.account_id:
            raise Invalid(
                "accountId", new.account_id, "it must be the account of the replaced account plan"
            )
        late = before.entity.end_date is not None and new.start_date > before.entity.end_date
        if new.start_date <= before.entity.start_date or late:
            end = format_instant(before.entity.end_date) if before.entity.end_date else "ever"
            start = format_instant(before.entity.start_date)
            rule = f"the replaced account plan must be active then: after {start}, until {end}"
            raise Invalid("startDate", format_instant(new.start_date), rule)
        original: Record[AccountPlan] = before
        if before.entity.end_date != new.start_date:
            ended = before.entity.model_copy(update={"end_date": new.start_date})
            original = update_in(transaction, organization.stores, before, before.version, ended)
        created = create_in(transaction, organization.stores, new)
        return {
            "originalAccountPlan": entity_document(original, transaction),
            "newAccountPlan": entity_document(created, transaction),
        }
