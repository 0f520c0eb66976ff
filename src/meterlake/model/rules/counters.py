"""Rules of counters, their pricings and their adjustments."""

from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed, display_name
from meterlake.model.rules.spans import overlap, span
from meterlake.model.scopes.products import product_of_pricing
from meterlake.model.values.period import format_instant


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
    pricing = new.entity
    for other in new.configuration.where(CounterPricing, "counter_id", pricing.counter_id):
        same = _place(other.entity) == _place(pricing) and other.id != new.id
        if same and overlap(other.entity, pricing):
            start = format_instant(pricing.start_date)
            rule = (
                f"{display_name(other)} holds {span(other.entity)}, and prices of one counter in one"
                " place may not overlap; end that one before, or begin later"
            )
            raise Invalid("startDate", start, rule)


def _place(pricing: CounterPricing) -> tuple[object, ...]:
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
