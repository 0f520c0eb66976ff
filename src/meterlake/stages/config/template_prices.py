"""Prices that plans take from their templates: which ones, who else has them, what has no day.

A price of a plan hides its template's for the same thing, segment and type from when it begins.
"""

from collections.abc import Collection, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.plans import Plan, PlanGroupLink, PlanTemplate, Pricing
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import NotFound
from meterlake.model.resources import code_of
from meterlake.model.values.entity import Configuration, Record

# What a plan says and else its template, and what the wire calls it.
_CHARGES: Final = {"standing_charge": "STANDING_CHARGE", "minimum_spend": "MINIMUM_SPEND"}


class SharingPlan(NamedTuple):
    """A plan that takes prices from a template, and how many customers have it on the day."""

    code: str
    name: str
    customers: int
    is_chosen: bool


class SharedTemplate(NamedTuple):
    """A template of chosen plans, or a chosen one, with all plans that take their prices from it."""

    code: str
    name: str
    is_chosen: bool
    plans: tuple[SharingPlan, ...]

    def to_wire(self) -> dict[str, Any]:
        """The template under camelCase names."""
        return {
            "code": self.code,
            "name": self.name,
            "chosen": self.is_chosen,
            "plans": [
                {
                    "code": each.code,
                    "name": each.name,
                    "customers": each.customers,
                    "chosen": each.is_chosen,
                }
                for each in self.plans
            ],
        }


class KeptCharge(NamedTuple):
    """A charge of a plan that a scale of prices leaves as it is: it has no day from which it holds."""

    plan: str
    charge: str
    amount: Decimal
    currency: str

    def to_wire(self) -> dict[str, Any]:
        """The charge under camelCase names."""
        return {
            "plan": self.plan,
            "charge": self.charge,
            "amount": self.amount,
            "currency": self.currency,
        }


def inherited_prices(
    configuration: Configuration, plan: Record[Plan], start: datetime
) -> Iterator[Record[Any]]:
    """The prices of a plan's template that none of its own hides on a day, or later."""
    for kind in (Pricing, CounterPricing):
        mine: list[Record[Any]] = [*configuration.where(kind, "plan_id", plan.id)]
        own = {
            each.entity.hiding_key
            for each in mine
            if each.entity.end_date is None or each.entity.end_date > start
        }
        template_id = plan.entity.plan_template_id
        theirs: list[Record[Any]] = [*configuration.where(kind, "plan_template_id", template_id)]
        for each in theirs:
            if each.entity.hiding_key not in own:
                yield each


def hidden_price(
    configuration: Configuration, price: Pricing | CounterPricing
) -> Record[Any] | None:
    """The price of the template whose place one of a plan takes; None if there is none."""
    plan_id, start = price.plan_id, price.start_date
    if plan_id is None:
        return None
    try:
        plan = configuration.get(Plan, plan_id)
    except NotFound:
        # The same change makes it.
        return None
    found = inherited_prices(configuration, plan, start)
    return next(
        (
            each
            for each in found
            if type(each.entity) is type(price)
            and each.entity.hiding_key == price.hiding_key
            and each.entity.start_date <= start
            and (each.entity.end_date is None or start < each.entity.end_date)
        ),
        None,
    )


def shared_templates(
    configuration: Configuration, chosen: Collection[str], start: datetime
) -> Iterator[SharedTemplate]:
    """The templates with prices that chosen plans have, and chosen ones: whom their prices concern.

    Args:
        configuration: The configuration.
        chosen: The ids of plans and templates.
        start: The instant at which customers are counted.
    """
    templates = {
        each.entity.plan_template_id for each in configuration.all(Plan) if each.id in chosen
    }
    for template in configuration.all(PlanTemplate):
        is_chosen = template.id in chosen
        priced = any(
            configuration.where(kind, "plan_template_id", template.id)
            for kind in (Pricing, CounterPricing)
        )
        if priced and (is_chosen or template.id in templates):
            plans = [
                SharingPlan(
                    *(each.entity.code, each.entity.name),
                    *(_count_customers(configuration, each.id, start), each.id in chosen),
                )
                for each in configuration.where(Plan, "plan_template_id", template.id)
            ]
            plans.sort(key=lambda each: (-each.customers, each.code))
            code, name = code_of(template.entity) or template.id, template.entity.name
            yield SharedTemplate(code, name, is_chosen, tuple(plans))


def _count_customers(configuration: Configuration, plan_id: str, start: datetime) -> int:
    links = configuration.where(PlanGroupLink, "plan_id", plan_id)
    attached = [
        *configuration.where(AccountPlan, "plan_id", plan_id),
        *(
            each
            for link in links
            for each in configuration.where(AccountPlan, "plan_group_id", link.entity.plan_group_id)
        ),
    ]
    return len(
        {
            each.entity.account_id
            for each in attached
            if each.entity.end_date is None or each.entity.end_date > start
        }
    )


def kept_charges(configuration: Configuration, chosen: Collection[str]) -> Iterator[KeptCharge]:
    """Standing charges and minimum spends of chosen plans and templates, their own or the template's."""
    for template in configuration.all(PlanTemplate):
        owners: list[Record[Any]] = [template] if template.id in chosen else []
        plans = configuration.where(Plan, "plan_template_id", template.id)
        owners += [each for each in plans if each.id in chosen]
        for owner in owners:
            for field, charge in _CHARGES.items():
                own = getattr(owner.entity, field)
                amount = getattr(template.entity, field) if own is None else own
                if amount:
                    name = code_of(owner.entity) or owner.entity.name
                    yield KeptCharge(name, charge, amount, template.entity.currency)
