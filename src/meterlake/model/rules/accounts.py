"""Rules of accounts, parents and children, and of the plans that they are on."""

from itertools import combinations
from typing import Any, Final

from meterlake.model.catalog.plans import Plan, PlanGroup
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, changes, display_name
from meterlake.model.rules.references import exactly_one
from meterlake.model.rules.spans import overlap, span
from meterlake.model.scopes.products import product_of_plan, products_of_account_plan
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import format_instant
from meterlake.model.values.plurals import first_of

CHILDREN_MAX: Final = 999
_LISTED_MAX: Final = 20
# What says who is on which plan, and when.
_PLACE: Final = ("account_id", "plan_id", "plan_group_id", "start_date", "end_date")


def parent_is_no_child(new: Proposed[Account]) -> None:
    """A parent is another account, one without a parent of its own: there are no grandparents."""
    parent_id = new.entity.parent_account_id
    if parent_id is None:
        return
    if parent_id == new.id:
        raise Invalid(
            "parentAccountId",
            parent_id,
            "an account cannot be its own parent; choose another account",
        )
    parent = new.configuration.get(Account, parent_id).entity
    if parent.parent_account_id is not None:
        rule = f"{parent.code!r} has a parent itself; choose an account without one"
        raise Invalid("parentAccountId", parent_id, rule)


def child_has_no_children(new: Proposed[Account]) -> None:
    """An account with children gets no parent."""
    parent_id = new.entity.parent_account_id
    if parent_id is None:
        return
    for child in new.configuration.where(Account, "parent_account_id", new.id):
        rule = f"the account has children, such as {child.entity.code!r}; leave it out"
        raise Invalid("parentAccountId", parent_id, rule)


def children_fit(new: Proposed[Account]) -> None:
    """An account has at most 999 children."""
    parent_id = new.entity.parent_account_id
    if parent_id is None or (new.before and new.before.parent_account_id == parent_id):
        return
    if len(new.configuration.where(Account, "parent_account_id", parent_id)) > CHILDREN_MAX:
        rule = f"it has {CHILDREN_MAX} children, and may have no more; choose another account"
        raise Invalid("parentAccountId", parent_id, rule)


def account_plan_product(
    record: Record[AccountPlan], configuration: Configuration
) -> dict[str, Any]:
    """The product of an account plan: its plan's; a plan group has none."""
    if record.entity.plan_id is None:
        return {}
    return {
        "productId": product_of_plan(
            configuration.get(Plan, record.entity.plan_id).entity, configuration
        )
    }


def one_plan_or_group(new: Proposed[AccountPlan]) -> None:
    """An account is put on a plan or on a group of plans."""
    exactly_one(new.entity, "planId", "planGroupId")


def bespoke_plan_for_its_account(new: Proposed[AccountPlan]) -> None:
    """A plan or plan group that was made for one account is only for that account."""
    account_plan = new.entity
    if account_plan.plan_id is not None:
        plan = new.configuration.get(Plan, account_plan.plan_id).entity
        if plan.account_id not in {None, account_plan.account_id}:
            raise Invalid("planId", plan.code, _made_for_another("plan"))
    if account_plan.plan_group_id is not None:
        group = new.configuration.get(PlanGroup, account_plan.plan_group_id).entity
        if group.account_id not in {None, account_plan.account_id}:
            name = group.code or group.name
            raise Invalid("planGroupId", name, _made_for_another("plan group"))


def _made_for_another(kind: str) -> str:
    return (
        f"the {kind} was made for another account; choose one without accountId, or one that was"
        " made for this account"
    )


def contract_of_its_account(new: Proposed[AccountPlan]) -> None:
    """A contract covers the plans of its account and of that account's children."""
    if new.entity.contract_id is None:
        return
    contract = new.configuration.get(Contract, new.entity.contract_id).entity
    account = new.configuration.get(Account, new.entity.account_id).entity
    if contract.account_id not in {new.entity.account_id, account.parent_account_id}:
        name = contract.code or contract.name
        raise Invalid(
            "contractId",
            name,
            "it is of another account; choose a contract of the account or of its parent",
        )


def one_plan_per_product(new: Proposed[AccountPlan]) -> None:
    """An account is on one plan per product at a time, unless the organization allows more.

    An edit that leaves account, plan and time as they were is not asked.
    """
    if new.edited and new.before is not None and not changes(new, *_PLACE):
        return
    if any(c.entity.allow_overlapping_plans for c in new.configuration.all(OrganizationConfig)):
        return
    for other in new.configuration.where(AccountPlan, "account_id", new.entity.account_id):
        if other.id != new.id and _collide(new.entity, other.entity, new.configuration):
            rule = (
                f"{display_name(other)} holds {span(other.entity)}, and plans of one product may not"
                " overlap while allowOverlappingPlans is false; end one before the other starts, or"
                " set allowOverlappingPlans to true"
            )
            raise Invalid("startDate", format_instant(new.entity.start_date), rule)


def overlaps_are_allowed(new: Proposed[OrganizationConfig]) -> None:
    """Overlapping plans stay allowed as long as an account has some."""
    if not changes(new, "allow_overlapping_plans") or new.entity.allow_overlapping_plans:
        return
    # Every two account plans of an account that overlap, in words.
    found: list[str] = []
    of_account: dict[str, list[Record[AccountPlan]]] = {}
    for record in new.configuration.all(AccountPlan):
        of_account.setdefault(record.entity.account_id, []).append(record)
    for account_id, plans in of_account.items():
        plans.sort(key=lambda record: (record.entity.start_date, record.id))
        for one, other in combinations(plans, 2):
            if _collide(one.entity, other.entity, new.configuration):
                account = display_name(new.configuration.get(Account, account_id))
                both = f"{display_name(one)} {span(one.entity)}, {display_name(other)} {span(other.entity)}"
                found.append(f"{account}: {both}")
    if not found:
        return
    listed = first_of(found, _LISTED_MAX)
    # An update replaces all fields: to leave it out is to say false.
    rule = (
        f"plans of one product overlap: {listed}; end one of them before the other starts, or send"
        " allowOverlappingPlans: true"
    )
    raise Invalid("allowOverlappingPlans", new.entity.allow_overlapping_plans, rule)


def _collide(one: AccountPlan, other: AccountPlan, configuration: Configuration) -> bool:
    return overlap(one, other) and bool(
        products_of_account_plan(one, configuration)
        & products_of_account_plan(other, configuration)
    )
