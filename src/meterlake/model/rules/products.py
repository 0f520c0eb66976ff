"""Which product an entity belongs to, directly or through others; none means every product."""

from collections.abc import Iterator
from typing import Protocol

from meterlake.model.accounts import AccountPlan
from meterlake.model.catalog import Aggregation, Meter
from meterlake.model.entity import Configuration
from meterlake.model.plan_groups import PlanGroupLink
from meterlake.model.pricing import Plan, PlanTemplate


class Placed(Protocol):
    """What stands on a plan or on a plan template: every kind of pricing."""

    @property
    def plan_id(self) -> str | None:
        """The plan, or None."""

    @property
    def plan_template_id(self) -> str | None:
        """The template, or None."""


def product_of_plan(plan: Plan, around: Configuration) -> str:
    """The id of the product that a plan belongs to: its template's."""
    return around.get(PlanTemplate, plan.plan_template_id).entity.product_id


def product_of_pricing(pricing: Placed, around: Configuration) -> str:
    """The id of the product whose plans a pricing is for."""
    if pricing.plan_id is not None:
        return product_of_plan(around.get(Plan, pricing.plan_id).entity, around)
    assert pricing.plan_template_id is not None
    return around.get(PlanTemplate, pricing.plan_template_id).entity.product_id


def product_of_aggregation(aggregation: Aggregation, around: Configuration) -> str | None:
    """The id of the product of an aggregation: its meter's, None if that is global."""
    return around.get(Meter, aggregation.meter_id).entity.product_id


def plans_of_group(plan_group_id: str, around: Configuration) -> Iterator[Plan]:
    """The plans that are linked to a plan group."""
    for link in around.where(PlanGroupLink, "plan_group_id", plan_group_id):
        yield around.get(Plan, link.entity.plan_id).entity


def products_of_account_plan(account_plan: AccountPlan, around: Configuration) -> set[str]:
    """The ids of the products that an account plan covers: one, or those of a plan group."""
    if account_plan.plan_id is not None:
        plans = iter((around.get(Plan, account_plan.plan_id).entity,))
    else:
        assert account_plan.plan_group_id is not None
        plans = plans_of_group(account_plan.plan_group_id, around)
    return {product_of_plan(plan, around) for plan in plans}
