"""Rules of the plans that accounts are on."""

from typing import Any

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.contracts import Contract
from meterlake.model.entity import Configuration, Record
from meterlake.model.errors import Invalid
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import format_instant
from meterlake.model.plan_groups import PlanGroup
from meterlake.model.pricing import Plan
from meterlake.model.rules.choice import exactly_one
from meterlake.model.rules.products import product_of_plan, products_of_account_plan
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.spans import overlap, span


def account_plan_product(record: Record[AccountPlan], around: Configuration) -> dict[str, Any]:
    """The product of an account plan: its plan's; a plan group has none."""
    if record.entity.plan_id is None:
        return {}
    return {"productId": product_of_plan(around.get(Plan, record.entity.plan_id).entity, around)}


def one_plan_or_group(new: Proposed[AccountPlan]) -> None:
    """An account is put on a plan or on a group of plans."""
    exactly_one(new.entity, "planId", "planGroupId")


def bespoke_plan_for_its_account(new: Proposed[AccountPlan]) -> None:
    """A plan or plan group that was made for one account is only for that account."""
    account_plan = new.entity
    if account_plan.plan_id is not None:
        plan = new.around.get(Plan, account_plan.plan_id).entity
        if plan.account_id not in {None, account_plan.account_id}:
            raise Invalid("planId", plan.code, "a plan for everyone, or one made for this account")
    if account_plan.plan_group_id is not None:
        group = new.around.get(PlanGroup, account_plan.plan_group_id).entity
        if group.account_id not in {None, account_plan.account_id}:
            rule = "a plan group for everyone, or one made for this account"
            raise Invalid("planGroupId", group.code or group.name, rule)


def contract_of_its_account(new: Proposed[AccountPlan]) -> None:
    """A contract covers the plans of its account and of that account's children."""
    if new.entity.contract_id is None:
        return
    contract = new.around.get(Contract, new.entity.contract_id).entity
    account = new.around.get(Account, new.entity.account_id).entity
    if contract.account_id not in {new.entity.account_id, account.parent_account_id}:
        name = contract.code or contract.name
        raise Invalid("contractId", name, "a contract of the account or of its parent")


def one_plan_per_product(new: Proposed[AccountPlan]) -> None:
    """An account is on one plan per product at a time, unless the organization allows more."""
    if any(c.entity.allow_overlapping_plans for c in new.around.all(OrganizationConfig)):
        return
    products = products_of_account_plan(new.entity, new.around)
    for other in new.around.where(AccountPlan, "account_id", new.entity.account_id):
        if other.id == new.id or not overlap(other.entity, new.entity):
            continue
        if products & products_of_account_plan(other.entity, new.around):
            rule = f"outside the time of the account plan that begins {span(other.entity)}"
            raise Invalid("startDate", format_instant(new.entity.start_date), rule)
