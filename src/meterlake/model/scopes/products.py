"""Which product an entity belongs to, directly or through others; none means every product."""

from collections.abc import Iterator
from typing import Protocol

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.catalog.plans import Plan, PlanGroupLink, PlanTemplate
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.values.entity import Configuration


class Placed(Protocol):
    """What stands on a plan or on a plan template: every kind of pricing."""

    @property
    def plan_id(self) -> str | None:
        """The plan, or None."""

    @property
    def plan_template_id(self) -> str | None:
        """The template, or None."""


def product_of_plan(plan: Plan, configuration: Configuration) -> str:
    """The id of the product that a plan belongs to: its template's."""
    return configuration.get(PlanTemplate, plan.plan_template_id).entity.product_id


def product_of_pricing(pricing: Placed, configuration: Configuration) -> str:
    """The id of the product whose plans a pricing is for."""
    if pricing.plan_id is not None:
        return product_of_plan(configuration.get(Plan, pricing.plan_id).entity, configuration)
    assert pricing.plan_template_id is not None
    return configuration.get(PlanTemplate, pricing.plan_template_id).entity.product_id


def product_of_aggregation(aggregation: Aggregation, configuration: Configuration) -> str | None:
    """The id of the product of an aggregation: its meter's, None if that is global."""
    return configuration.get(Meter, aggregation.meter_id).entity.product_id


def plans_of_group(plan_group_id: str, configuration: Configuration) -> Iterator[Plan]:
    """The plans that are linked to a plan group."""
    for link in configuration.where(PlanGroupLink, "plan_group_id", plan_group_id):
        yield configuration.get(Plan, link.entity.plan_id).entity


def products_of_account_plan(account_plan: AccountPlan, configuration: Configuration) -> set[str]:
    """The ids of the products that an account plan covers: one, or those of a plan group."""
    if account_plan.plan_id is not None:
        plans = iter((configuration.get(Plan, account_plan.plan_id).entity,))
    else:
        assert account_plan.plan_group_id is not None
        plans = plans_of_group(account_plan.plan_group_id, configuration)
    return {product_of_plan(plan, configuration) for plan in plans}
