"""Rules of plans and pricings."""

from itertools import pairwise
from typing import Any

from meterlake.model import wire
from meterlake.model.catalog import Aggregation, Meter
from meterlake.model.entity import Configuration, Record
from meterlake.model.errors import Invalid
from meterlake.model.period import format_instant
from meterlake.model.pricing import Plan, PlanTemplate, Pricing
from meterlake.model.rules.choice import exactly_one
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.spans import overlap, span


def plan_product(record: Record[Plan], around: Configuration) -> dict[str, Any]:
    """The product of a plan: its template's."""
    return {"productId": product_of_plan(record.entity, around)}


def product_of_plan(plan: Plan, around: Configuration) -> str:
    """The id of the product that a plan belongs to."""
    return around.get(PlanTemplate, plan.plan_template_id).entity.product_id


def pricing_aggregation_type(record: Record[Pricing], around: Configuration) -> dict[str, Any]:
    """Which kind of aggregation is priced, and the segment as text."""
    del around
    simple = record.entity.aggregation_id is not None
    segment = record.entity.segment
    text = {"segmentString": wire.dumps_sorted(segment)} if segment else {}
    return {"aggregationType": "SIMPLE" if simple else "COMPOUND", **text}


def one_plan_or_template(new: Proposed[Pricing]) -> None:
    """A pricing belongs to a plan or to a template."""
    exactly_one(new.entity, "planId", "planTemplateId")


def one_aggregation(new: Proposed[Pricing]) -> None:
    """A pricing prices one aggregation, simple or compound."""
    exactly_one(new.entity, "aggregationId", "compoundAggregationId")


def bands_rise(new: Proposed[Pricing]) -> None:
    """Bands begin at 0 and rise, so that no quantity is without a price or has two."""
    lowers = [band.lower_limit for band in new.entity.pricing_bands]
    if lowers[0] != 0:
        raise Invalid("pricingBands[0].lowerLimit", lowers[0], "0 in the first band")
    for index, (lower, upper) in enumerate(pairwise(lowers), start=1):
        if upper <= lower:
            raise Invalid(f"pricingBands[{index}].lowerLimit", upper, f"more than {lower}")


def aggregation_in_product_scope(new: Proposed[Pricing]) -> None:
    """An aggregation of a product's meter prices only that product's plans."""
    if new.entity.aggregation_id is None:
        return
    aggregation = new.around.get(Aggregation, new.entity.aggregation_id).entity
    product_id = new.around.get(Meter, aggregation.meter_id).entity.product_id
    if product_id not in {None, _product_of_pricing(new.entity, new.around)}:
        name = aggregation.code or aggregation.name
        raise Invalid(
            "aggregationId", name, "an aggregation of the plan's product, or a global one"
        )


def _product_of_pricing(pricing: Pricing, around: Configuration) -> str | None:
    if pricing.plan_id is not None:
        return product_of_plan(around.get(Plan, pricing.plan_id).entity, around)
    assert pricing.plan_template_id is not None
    return around.get(PlanTemplate, pricing.plan_template_id).entity.product_id


def one_price_at_a_time(new: Proposed[Pricing]) -> None:
    """Two pricings of one aggregation in one place never hold at the same time."""
    pricing = new.entity
    for other in new.around.where(Pricing, "aggregation_id", pricing.aggregation_id):
        same = _place(other.entity) == _place(pricing) and other.id != new.id
        if same and overlap(other.entity, pricing):
            start = format_instant(pricing.start_date)
            rule = f"outside the time of the pricing that begins {span(other.entity)}"
            raise Invalid("startDate", start, rule)


def _place(pricing: Pricing) -> tuple[object, ...]:
    return pricing.plan_id, pricing.plan_template_id, pricing.type, pricing.segment


def bespoke_account_stays(new: Proposed[Plan]) -> None:
    """A plan made for one account is not moved to another."""
    before = new.before.account_id if new.before else None
    if before is not None and new.entity.account_id != before:
        raise Invalid("accountId", new.entity.account_id, "the account that the plan was made for")
