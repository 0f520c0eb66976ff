"""Rules of plans, their groups and what is linked to them, and of pricings and their bands."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.plans import (
    Plan,
    PlanGroup,
    PlanGroupLink,
    PlanTemplate,
    Pricing,
    PricingBand,
)
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import Invalid
from meterlake.model.rules.accounts import one_plan_per_product
from meterlake.model.rules.proposed import Proposed, check_dependents, display_name
from meterlake.model.rules.references import exactly_one
from meterlake.model.rules.spans import overlap, span
from meterlake.model.scopes.products import (
    product_of_aggregation,
    product_of_plan,
    product_of_pricing,
)
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import format_instant

Price = TypeVar("Price", Pricing, CounterPricing)


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


def pricing_aggregation_type(
    record: Record[Pricing], configuration: Configuration
) -> dict[str, Any]:
    """Which kind of aggregation is priced, and the segment as text."""
    del configuration
    simple = record.entity.aggregation_id is not None
    segment = record.entity.segment
    text = {"segmentString": wire.dumps_sorted(segment)} if segment else {}
    return {"aggregationType": "SIMPLE" if simple else "COMPOUND", **text}


def one_aggregation(new: Proposed[Pricing]) -> None:
    """A pricing prices one aggregation, simple or compound."""
    exactly_one(new.entity, "aggregationId", "compoundAggregationId")


def overage_bands_fit(new: Proposed[Pricing]) -> None:
    """Overage bands rise like other bands, and only tiers that begin anew with every bill have any."""
    pricing = new.entity
    if not pricing.overage_pricing_bands:
        return
    if not pricing.cumulative:
        rule = "a pricing with overagePricingBands is cumulative; send true, or no such bands"
        raise Invalid("cumulative", pricing.cumulative, rule)
    if pricing.tiers_span_plan:
        rule = "overagePricingBands begin anew with every bill; send false, or no such bands"
        raise Invalid("tiersSpanPlan", pricing.tiers_span_plan, rule)
    check_bands("overagePricingBands", pricing.overage_pricing_bands)


def aggregation_in_product_scope(new: Proposed[Pricing]) -> None:
    """An aggregation of a product's meter prices only that product's plans."""
    if new.entity.aggregation_id is None:
        return
    aggregation = new.configuration.get(Aggregation, new.entity.aggregation_id).entity
    product_id = product_of_aggregation(aggregation, new.configuration)
    if product_id not in {None, product_of_pricing(new.entity, new.configuration)}:
        name = aggregation.code or aggregation.name
        raise Invalid(
            "aggregationId",
            name,
            "it must be an aggregation of the plan's product, or a global one",
        )


def compound_in_product_scope(new: Proposed[Pricing]) -> None:
    """A compound aggregation of a product prices only that product's plans."""
    if new.entity.compound_aggregation_id is None:
        return
    compound = new.configuration.get(CompoundAggregation, new.entity.compound_aggregation_id).entity
    if compound.product_id not in {None, product_of_pricing(new.entity, new.configuration)}:
        rule = "it must be a compound aggregation of the plan's product, or a global one"
        raise Invalid("compoundAggregationId", compound.code or compound.name, rule)


def segment_exists(new: Proposed[Pricing]) -> None:
    """A price for a segment is for one that the aggregation has, letter for letter."""
    pricing = new.entity
    if pricing.segment and pricing.segment not in _segments(pricing, new.configuration):
        rule = "it must be one of the segments of the aggregation"
        raise Invalid("segment", wire.dumps_sorted(pricing.segment), rule)


def _segments(pricing: Pricing, configuration: Configuration) -> Sequence[dict[str, str]]:
    if pricing.aggregation_id is not None:
        return configuration.get(Aggregation, pricing.aggregation_id).entity.segments
    assert pricing.compound_aggregation_id is not None
    compound = configuration.get(CompoundAggregation, pricing.compound_aggregation_id).entity
    return segments_of_compound(compound, configuration)


def segments_of_compound(
    compound: CompoundAggregation, configuration: Configuration
) -> Sequence[dict[str, str]]:
    """The segments that all segmented aggregations of a calculation have in common.

    Every one of them has to yield a value for a segment, or nothing could be calculated for it.
    """
    found = (configuration.find(Aggregation, code) for code in compound.aggregation_codes)
    segmented = [each.entity.segments for each in found if each and each.entity.segments]
    if not segmented:
        return ()
    first, *others = segmented
    return [segment for segment in first if all(segment in other for other in others)]


def one_price_at_a_time(new: Proposed[Pricing]) -> None:
    """Two pricings of one aggregation in one place never hold at the same time."""
    pricing = new.entity
    name = "aggregation_id" if pricing.aggregation_id else "compound_aggregation_id"
    others = new.configuration.where(Pricing, name, getattr(pricing, name))
    _refuse_overlap(new, others, _place, "aggregation")


def _refuse_overlap(
    new: Proposed[Price],
    others: Iterable[Record[Price]],
    place: Callable[[Price], tuple[object, ...]],
    what: str,
) -> None:
    """Refuse a price that holds while another one of the same thing does, in the same place.

    Raises:
        Invalid: There is such a time.
    """
    for other in others:
        same = place(other.entity) == place(new.entity) and other.id != new.id
        if same and overlap(other.entity, new.entity):
            start = format_instant(new.entity.start_date)
            rule = (
                f"{display_name(other)} holds {span(other.entity)}, and prices of one {what} in"
                " one place may not overlap; end that one before, or begin later"
            )
            raise Invalid("startDate", start, rule)


def _place(pricing: Pricing) -> tuple[object, ...]:
    return pricing.plan_id, pricing.plan_template_id, pricing.type, pricing.segment


def one_plan_or_template(new: Proposed[Any]) -> None:
    """A pricing belongs to a plan or to a template."""
    exactly_one(new.entity, "planId", "planTemplateId")


def bands_rise(new: Proposed[Any]) -> None:
    """Bands begin at 0 and rise, so that no quantity is without a price or has two."""
    check_bands("pricingBands", new.entity.pricing_bands)


def check_bands(name: str, bands: Sequence[PricingBand]) -> None:
    """Refuse bands that do not begin at 0 or do not rise.

    Raises:
        Invalid: They are such.
    """
    lowers = [band.lower_limit for band in bands]
    if lowers[0] != 0:
        raise Invalid(f"{name}[0].lowerLimit", lowers[0], "the first band must begin at 0")
    for index, (lower, upper) in enumerate(pairwise(lowers), start=1):
        if upper <= lower:
            raise Invalid(f"{name}[{index}].lowerLimit", upper, f"it must be more than {lower}")


def counter_in_product_scope(new: Proposed[CounterPricing]) -> None:
    """A counter of a product is priced only on that product's plans."""
    counter = new.configuration.get(Counter, new.entity.counter_id).entity
    if counter.product_id not in {None, product_of_pricing(new.entity, new.configuration)}:
        name = counter.code or counter.name
        raise Invalid(
            "counterId", name, "it must be a counter of the plan's product, or a global one"
        )


def one_counter_price_at_a_time(new: Proposed[CounterPricing]) -> None:
    """Two pricings of one counter in one place never hold at the same time."""
    others = new.configuration.where(CounterPricing, "counter_id", new.entity.counter_id)
    _refuse_overlap(new, others, _counter_place, "counter")


def _counter_place(pricing: CounterPricing) -> tuple[object, ...]:
    return pricing.plan_id, pricing.plan_template_id


def one_adjustment_per_day(new: Proposed[CounterAdjustment]) -> None:
    """An account has one number of a counter on a day."""
    adjustment = new.entity
    for other in new.configuration.where(CounterAdjustment, "account_id", adjustment.account_id):
        same = other.entity.counter_id == adjustment.counter_id and other.id != new.id
        if same and other.entity.date == adjustment.date:
            day = adjustment.date.isoformat()
            rule = f"it must be a day without an adjustment; {other.id!r} sets the counter to "
            raise Invalid("date", day, rule + str(other.entity.value))
