"""Rules of pricings: their price bands, where they stand, and what those of aggregations charge for."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.plans import Pricing, PricingBand
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, display_name
from meterlake.model.rules.references import exactly_one
from meterlake.model.rules.spans import overlap, span
from meterlake.model.scopes.products import product_of_aggregation, product_of_pricing
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import format_instant

Price = TypeVar("Price", Pricing, CounterPricing)


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
