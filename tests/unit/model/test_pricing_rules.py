"""Rules of pricings, counters and their pricings and adjustments."""

import pytest

from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.plans import PlanTemplate, Pricing
from meterlake.model.errors import Invalid
from tests.rule_world import COMPOUND, PRICING, bands, market, subscribed


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"overagePricingBands": bands(0)},
            "cumulative: false is not allowed: a pricing with overagePricingBands is cumulative",
        ),
        (
            {"overagePricingBands": bands(0), "cumulative": True, "tiersSpanPlan": True},
            "tiersSpanPlan: true is not allowed: overagePricingBands begin anew",
        ),
        (
            {"overagePricingBands": bands(1), "cumulative": True},
            r"overagePricingBands\[0\].lowerLimit",
        ),
        (
            {"overagePricingBands": bands(0, 5, 5), "cumulative": True},
            r"overagePricingBands\[2\].lowerLimit: 5 is not allowed: it must be more than 5",
        ),
        ({"pricingBands": bands(0, 7, 6)}, r"pricingBands\[2\].lowerLimit"),
        ({"planTemplateId": "@cloud template"}, "exactly one of planId and planTemplateId"),
        ({"aggregationId": None}, "exactly one of aggregationId and compoundAggregationId"),
    ],
)
def test_a_broken_pricing_is_refused(fields, sentence):
    with pytest.raises(Invalid, match=sentence):
        subscribed().change(Pricing, "price", **fields)


def test_overage_bands_go_with_tiers_that_begin_anew():
    subscribed().change(Pricing, "price", cumulative=True, overagePricingBands=bands(0, 5))
    subscribed().change(Pricing, "price", cumulative=True, tiersSpanPlan=True)


@pytest.mark.parametrize(
    ("product", "plan", "free"),
    [
        ("@cloud", "@cloud plan", True),
        (None, "@cloud plan", True),
        (None, "@shop plan", True),
        ("@cloud", "@shop plan", False),
    ],
)
def test_a_compound_prices_the_plans_in_its_reach(product, plan, free):
    world = market().put(CompoundAggregation, "c", **COMPOUND, calculation="1", productId=product)
    fields = {**PRICING, "planId": plan, "compoundAggregationId": "@c"}
    if free:
        world.put(Pricing, "p", **fields)
    else:
        with pytest.raises(Invalid, match="a compound aggregation of the plan's product"):
            world.put(Pricing, "p", **fields)


def test_a_change_of_product_is_checked_against_the_prices():
    world = market().put(CompoundAggregation, "c", **COMPOUND, calculation="1")
    world.put(Pricing, "p", **PRICING, planId="@cloud plan", compoundAggregationId="@c")

    with pytest.raises(Invalid, match="a compound aggregation of the plan's product"):
        world.change(CompoundAggregation, "c", productId="@shop")
    world.change(CompoundAggregation, "c", productId="@cloud")
    with pytest.raises(Invalid, match="a compound aggregation of the plan's product"):
        world.change(PlanTemplate, "cloud template", productId="@shop")


def test_a_compound_has_one_price_at_a_time():
    world = market()
    for name in ("c", "d"):
        world.put(CompoundAggregation, name, **COMPOUND, calculation="1")
    fields = {**PRICING, "planId": "@cloud plan"}
    world.put(Pricing, "p", **fields, compoundAggregationId="@c")

    with pytest.raises(Invalid, match="prices of one aggregation in one place may not overlap"):
        world.put(Pricing, "q", **fields, compoundAggregationId="@c")
    world.put(Pricing, "q", **fields, compoundAggregationId="@d")
    world.put(Pricing, "r", **fields, compoundAggregationId="@c", type="GLOBAL_CREDIT")


def counted(product=None):
    return market().put(Counter, "seats", name="Seats", unit="seat", productId=product)


ON_CLOUD = {**PRICING, "counterId": "@seats", "planId": "@cloud plan"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"planId": None}, "exactly one of planId and planTemplateId"),
        ({"planTemplateId": "@cloud template"}, "exactly one of planId and planTemplateId"),
        (
            {"pricingBands": bands(1)},
            r"pricingBands\[0\].lowerLimit: 1 is not allowed: the first band must begin at 0",
        ),
        ({"pricingBands": bands(0, 0)}, "more than 0"),
        ({"endDate": PRICING["startDate"]}, "after startDate"),
    ],
)
def test_a_broken_counter_pricing_is_refused(fields, sentence):
    with pytest.raises(Invalid, match=sentence):
        counted().put(CounterPricing, "p", **ON_CLOUD | fields)


def test_a_counter_of_a_product_is_priced_on_its_plans_only():
    with pytest.raises(Invalid, match="a counter of the plan's product, or a global one"):
        counted("@shop").put(CounterPricing, "p", **ON_CLOUD)
    world = counted("@cloud").put(CounterPricing, "p", **ON_CLOUD)
    with pytest.raises(Invalid, match="a counter of the plan's product, or a global one"):
        world.change(Counter, "seats", productId="@shop")
    with pytest.raises(Invalid, match="a counter of the plan's product, or a global one"):
        world.change(PlanTemplate, "cloud template", productId="@shop")


def test_a_counter_has_one_price_at_a_time():
    world = counted().put(CounterPricing, "p", **ON_CLOUD)

    with pytest.raises(Invalid, match="prices of one counter in one place may not overlap"):
        world.put(CounterPricing, "q", **ON_CLOUD)
    world.put(CounterPricing, "q", **ON_CLOUD | {"planId": "@shop plan"})
    world.change(CounterPricing, "p", endDate="2026-02-01T00:00:00Z")
    world.put(CounterPricing, "r", **ON_CLOUD | {"startDate": "2026-02-01T00:00:00Z"})


ADJUSTMENT = {"accountId": "@acme", "counterId": "@seats", "date": "2026-01-31", "value": 5}


def test_an_account_has_one_adjustment_of_a_counter_on_a_day():
    world = counted().put(CounterAdjustment, "a", **ADJUSTMENT)

    with pytest.raises(Invalid, match=r"date: '2026-01-31'.*sets the counter to 5"):
        world.put(CounterAdjustment, "b", **ADJUSTMENT | {"value": 6})
    world.change(CounterAdjustment, "a", value=6)
    world.put(Counter, "other", name="O", unit="o")
    world.put(CounterAdjustment, "b", **ADJUSTMENT | {"date": "2026-02-01"})
    world.put(CounterAdjustment, "c", **ADJUSTMENT | {"accountId": "@bolt"})
    world.put(CounterAdjustment, "d", **ADJUSTMENT | {"counterId": "@other"})
