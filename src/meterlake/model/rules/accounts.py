"""Rules of accounts and of the plans that they are on."""

from typing import Any

from meterlake.model.accounts import AccountPlan
from meterlake.model.entity import Configuration, Record
from meterlake.model.errors import Invalid
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import format_instant
from meterlake.model.pricing import Plan
from meterlake.model.rules.choice import exactly_one
from meterlake.model.rules.pricing import product_of_plan
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
    """A plan made for one account is only for that account."""
    if new.entity.plan_id is None:
        return
    plan = new.around.get(Plan, new.entity.plan_id).entity
    if plan.account_id not in {None, new.entity.account_id}:
        raise Invalid("planId", plan.code, "a plan for everyone, or one made for this account")


def one_plan_per_product(new: Proposed[AccountPlan]) -> None:
    """An account is on one plan per product at a time, unless the organization allows more."""
    if any(c.entity.allow_overlapping_plans for c in new.around.all(OrganizationConfig)):
        return
    product = _product_of_account_plan(new.entity, new.around)
    for other in new.around.where(AccountPlan, "account_id", new.entity.account_id):
        if other.id == new.id or not overlap(other.entity, new.entity):
            continue
        if _product_of_account_plan(other.entity, new.around) == product:
            rule = f"outside the time of the account plan that begins {span(other.entity)}"
            raise Invalid("startDate", format_instant(new.entity.start_date), rule)


def _product_of_account_plan(account_plan: AccountPlan, around: Configuration) -> str | None:
    if account_plan.plan_id is None:
        return None
    return product_of_plan(around.get(Plan, account_plan.plan_id).entity, around)
