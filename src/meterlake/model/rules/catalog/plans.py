"""Rules of plans, of plan groups, and of what is linked to them."""

from typing import Any

from meterlake.model.catalog.plans import Plan, PlanGroup, PlanGroupLink, PlanTemplate
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import Invalid
from meterlake.model.rules.accounts import one_plan_per_product
from meterlake.model.rules.proposed import Proposed, check_dependents
from meterlake.model.scopes.products import product_of_plan
from meterlake.model.values.entity import Configuration, Record


def plan_product(record: Record[Plan], configuration: Configuration) -> dict[str, Any]:
    """The product of a plan: its template's."""
    return {"productId": product_of_plan(record.entity, configuration)}


def bespoke_account_stays(new: Proposed[Any]) -> None:
    """A plan or plan group made for one account is not moved to another."""
    before = new.before.account_id if new.before else None
    if before is not None and new.entity.account_id != before:
        kind = "plan" if isinstance(new.entity, Plan) else "plan group"
        rule = f"the {kind} was made for {before!r} and stays there; make another {kind}"
        raise Invalid("accountId", new.entity.account_id, rule)


def bespoke_plan_in_its_group(new: Proposed[PlanGroupLink]) -> None:
    """A plan that was made for one account goes only into plan groups made for the same one."""
    plan = new.configuration.get(Plan, new.entity.plan_id).entity
    group = new.configuration.get(PlanGroup, new.entity.plan_group_id).entity
    if plan.account_id not in {None, group.account_id}:
        rule = (
            "the plan was made for another account; choose one without accountId, or one of the"
            " account of the plan group"
        )
        raise Invalid("planId", plan.code, rule)


def one_plan_per_product_in_group(new: Proposed[PlanGroupLink]) -> None:
    """A plan group has one plan per product."""
    plan = new.configuration.get(Plan, new.entity.plan_id).entity
    product_id = product_of_plan(plan, new.configuration)
    for link in new.configuration.where(PlanGroupLink, "plan_group_id", new.entity.plan_group_id):
        if link.id == new.id:
            continue
        other = new.configuration.get(Plan, link.entity.plan_id).entity
        if product_of_plan(other, new.configuration) == product_id:
            rule = f"{other.code!r} of the plan group is of the same product; take that out first"
            raise Invalid("planId", plan.code, rule)


def one_billing_period_in_group(new: Proposed[PlanGroupLink]) -> None:
    """All plans of a plan group are billed together: of one frequency and interval."""
    configuration = new.configuration
    plan = configuration.get(Plan, new.entity.plan_id).entity
    template = configuration.get(PlanTemplate, plan.plan_template_id).entity
    for link in configuration.where(PlanGroupLink, "plan_group_id", new.entity.plan_group_id):
        other = configuration.get(Plan, link.entity.plan_id).entity
        others = configuration.get(PlanTemplate, other.plan_template_id).entity
        if (others.bill_frequency, others.bill_frequency_interval) != (
            template.bill_frequency,
            template.bill_frequency_interval,
        ):
            rule = (
                f"it is not billed as often as {other.code!r} of the plan group; choose a plan of the"
                " same frequency and interval"
            )
            raise Invalid("planId", plan.code, rule)


def group_in_use_overlaps_nothing(new: Proposed[PlanGroupLink]) -> None:
    """A plan in a group that accounts are on covers no product that one of them has a plan for.

    Nothing refers to a link, so what depends on it is checked here: the account plans of its group.
    """
    plan = new.configuration.get(Plan, new.entity.plan_id).entity
    users = new.configuration.where(AccountPlan, "plan_group_id", new.entity.plan_group_id)
    check_dependents(users, one_plan_per_product, new.configuration, "planId", plan.code)
