"""Meters, aggregations and prices: what must be there, and what must stay."""

import m3ter
import pytest

from tests.e2e.api.asking import refused
from tests.e2e.api.world import BANDS, END, FIELDS, MIDDLE, START, bands

_LATER = "2028-01-01T00:00:00Z"


# --- Meters and aggregations ------------------------------------------------------------------------

_AGGREGATION = {
    "name": "Sent",
    "rounding": "NONE",
    "quantity_per_unit": 1,
    "unit": "GB",
    "aggregation": "SUM",
    "target_field": "gb",
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"target_field": "tb"}, ("targetField", "tb", "a field of meter")),
        ({"target_field": "region"}, ("targetField", "region", "numbers", "WHERE")),
        ({"target_field": "key", "aggregation": "MAX"}, ("targetField", "key", "METADATA")),
        ({"aggregation": "UNIQUE"}, ("targetField", "gb", "text", "MEASURE")),
        ({"aggregation": "CUSTOM_SQL"}, ("customSql", "null")),
        ({"custom_sql": "SELECT 1"}, ("customSql", "SELECT 1")),
        ({"segmented_fields": ["planet"]}, ("segmentedFields[0]", "planet")),
        ({"segmented_fields": ["key"]}, ("segmentedFields[0]", "key", "METADATA")),
        ({"segmented_fields": ["gb"]}, ("segmentedFields[0]", "gb", "MEASURE")),
        ({"segmented_fields": ["region", "region"]}, ("segmentedFields[1]", "region")),
        ({"segments": [{"region": "eu"}]}, ("segments[0].region", "segmentedFields")),
        (
            {"segmented_fields": ["region"], "segments": [{"region": "eu"}, {"region": "eu"}]},
            ("segments[1]", "eu"),
        ),
        ({"quantity_per_unit": 0}, ("quantityPerUnit", "0")),
    ],
)
def test_aggregations_read_fields_that_fit(sdk, world, change, words):
    body = {**_AGGREGATION, "meter_id": world.meter, **change}
    refused(sdk.aggregations.create, *words, **body)


@pytest.mark.parametrize(
    ("aggregation", "field"),
    [("SUM", "own"), ("COUNT", "gb"), ("UNIQUE", "key"), ("UNIQUE", "user"), ("LATEST", "gb")],
)
def test_aggregations_go_with_their_categories(sdk, world, aggregation, field):
    body = {**_AGGREGATION, "aggregation": aggregation, "target_field": field}
    assert sdk.aggregations.create(meter_id=world.meter, **body).version == 1


def test_a_field_that_an_aggregation_reads_stays(sdk, world):
    meter = world.new_meter()
    code = sdk.meters.retrieve(meter).code
    aggregation = world.new_aggregation(
        meter, segmented_fields=["region"], segments=[{"region": "eu"}]
    )
    name = sdk.aggregations.retrieve(aggregation).code
    body = {"name": "Egress", "code": code, "derived_fields": [], "version": 1}

    def without(field):
        return [each for each in FIELDS if each["code"] != field]

    for field, category in (("gb", "MEASURE"), ("region", "WHERE")):
        fields = without(field)
        refused(
            sdk.meters.update,
            "dataFields",
            field,
            category,
            name,
            id=meter,
            **body,
            data_fields=fields,
        )
    moved = [*without("gb"), {**FIELDS[0], "category": "COST"}]
    refused(sdk.meters.update, "dataFields", "gb", "MEASURE", id=meter, **body, data_fields=moved)
    sdk.meters.update(meter, **body, data_fields=without("own"))
    sdk.aggregations.delete(aggregation)
    sdk.meters.update(meter, **{**body, "version": 2}, data_fields=FIELDS[1:])


def test_fields_of_a_meter_have_codes_of_their_own(sdk, world):
    fields = [FIELDS[0], {**FIELDS[1], "code": "GB"}]
    body = {"name": "Egress", "code": world.code(), "data_fields": fields, "derived_fields": []}
    refused(sdk.meters.create, "dataFields[1].code", "GB", **body)


def test_compounds_reach_their_product_and_what_is_global(sdk, world):
    product, other = world.new_product(), world.new_product()
    own, foreign, common = (
        sdk.aggregations.retrieve(world.new_aggregation(world.new_meter(**where))).code
        for where in ({"product_id": product}, {"product_id": other}, {})
    )
    refused(
        world.new_compound,
        "calculation",
        foreign,
        "product",
        calculation=f"aggregation.{foreign}",
        product_id=product,
    )
    refused(
        world.new_compound, "calculation", "aggregation.nothing", calculation="aggregation.nothing"
    )
    refused(world.new_compound, "calculation", "parenthesis", calculation=f"(aggregation.{common}")
    world.new_compound(f"aggregation.{own} + aggregation.{common}", product_id=product)
    world.new_compound(f"aggregation.{own} / aggregation.{foreign}")


def test_what_a_compound_reads_stays_in_its_reach(sdk, world):
    product, other = world.new_product(), world.new_product()
    meter = world.new_meter(product_id=product)
    aggregation = sdk.aggregations.retrieve(world.new_aggregation(meter))
    compound = world.new_compound(f"aggregation.{aggregation.code} * 2", product_id=product)
    name = sdk.compound_aggregations.retrieve(compound).code
    code = sdk.meters.retrieve(meter).code
    body = {
        "name": "Egress",
        "code": code,
        "data_fields": FIELDS,
        "derived_fields": [],
        "version": 1,
    }
    refused(sdk.meters.update, "productId", other, name, id=meter, **body, product_id=other)
    renamed = {**_AGGREGATION, "meter_id": meter, "code": world.code(), "version": 1}
    refused(sdk.aggregations.update, "code", renamed["code"], name, id=aggregation.id, **renamed)
    refused(
        sdk.aggregations.delete,
        aggregation.id,
        "CompoundAggregation",
        answers=409,
        id=aggregation.id,
    )


# --- Prices -----------------------------------------------------------------------------------------


def _price(world, **changes):
    return {
        "plan_id": world.new_plan(),
        "aggregation_id": world.aggregation,
        "start_date": START,
        "pricing_bands": BANDS,
        **changes,
    }


@pytest.mark.parametrize(
    ("lowers", "words"),
    [
        ((1,), ("pricingBands[0].lowerLimit", "1", "the first band must begin at 0")),
        ((0, 10, 10), ("pricingBands[2].lowerLimit", "10", "more than 10")),
        ((0, 10, 5), ("pricingBands[2].lowerLimit", "5", "more than 10")),
        ((0, -1), ("pricingBands[1].lowerLimit", "-1")),
        ((), ("pricingBands",)),
    ],
)
def test_bands_begin_at_0_and_rise(sdk, world, lowers, words):
    refused(sdk.pricings.create, *words, **_price(world, pricing_bands=bands(*lowers)))
    counter = {"counter_id": world.counter, "plan_id": world.new_plan(), "start_date": START}
    refused(sdk.counter_pricings.create, *words, **counter, pricing_bands=bands(*lowers))


def test_overage_bands_need_tiers_that_begin_anew(sdk, world):
    over = {"overage_pricing_bands": bands(0, 10)}
    refused(sdk.pricings.create, "cumulative", "false", "true", **_price(world, **over))
    spanning = {**over, "cumulative": True, "tiers_span_plan": True}
    refused(sdk.pricings.create, "tiersSpanPlan", "true", "false", **_price(world, **spanning))
    falling = {"overage_pricing_bands": bands(0, 10, 5), "cumulative": True}
    refused(
        sdk.pricings.create, "overagePricingBands[2].lowerLimit", "5", **_price(world, **falling)
    )
    sdk.pricings.create(**_price(world, **over, cumulative=True))


@pytest.mark.parametrize("both", [True, False])
def test_a_price_is_of_one_plan_or_template_and_one_aggregation(sdk, world, both):
    template = {"plan_template_id": world.template} if both else {"plan_id": m3ter.omit}
    refused(
        sdk.pricings.create, "planId", "exactly one", "planTemplateId", **_price(world, **template)
    )
    compound = (
        {"compound_aggregation_id": world.compound} if both else {"aggregation_id": m3ter.omit}
    )
    words = ("aggregationId", "exactly one", "compoundAggregationId")
    refused(sdk.pricings.create, *words, **_price(world, **compound))


def test_prices_of_one_thing_do_not_overlap(sdk, world):
    plan = world.new_plan()
    first = sdk.pricings.create(**_price(world, plan_id=plan, end_date=END))
    refused(
        sdk.pricings.create, "startDate", MIDDLE, **_price(world, plan_id=plan, start_date=MIDDLE)
    )
    sdk.pricings.create(**_price(world, plan_id=plan, start_date=END))
    refused(
        sdk.pricings.update,
        "startDate",
        id=first.id,
        version=1,
        **_price(world, plan_id=plan, end_date=_LATER),
    )
    refused(sdk.pricings.create, "endDate", START, **_price(world, end_date=START))


def test_prices_are_of_segments_that_there_are(sdk, world):
    body = {"aggregation_id": world.segmented_aggregation}
    refused(
        sdk.pricings.create, "segment", "asia", **_price(world, **body, segment={"region": "asia"})
    )
    plan = world.new_plan()
    for region in ("eu", "us"):
        sdk.pricings.create(**_price(world, **body, plan_id=plan, segment={"region": region}))


@pytest.mark.long
def test_what_belongs_to_a_product_is_priced_on_its_plans(sdk, world):
    plan = world.new_plan_of_another_product()
    refused(sdk.pricings.create, "aggregationId", "product", **_price(world, plan_id=plan))
    compound = {"aggregation_id": m3ter.omit, "compound_aggregation_id": world.compound}
    refused(
        sdk.pricings.create,
        "compoundAggregationId",
        "product",
        **_price(world, plan_id=plan, **compound),
    )
    counter = {"counter_id": world.counter, "start_date": START, "pricing_bands": BANDS}
    refused(sdk.counter_pricings.create, "counterId", "product", **counter, plan_id=plan)
    common = world.new_aggregation(world.global_meter)
    sdk.pricings.create(**_price(world, plan_id=plan, aggregation_id=common))
    sdk.counter_pricings.create(**{**counter, "counter_id": world.new_counter()}, plan_id=plan)


def test_a_priced_segment_is_not_taken_away(sdk, world):
    meter = world.new_meter(product_id=world.product)
    segmented = {"segmented_fields": ["region"], "segments": [{"region": "eu"}, {"region": "us"}]}
    aggregation = sdk.aggregations.retrieve(world.new_aggregation(meter, **segmented))
    sdk.pricings.create(**_price(world, aggregation_id=aggregation.id, segment={"region": "eu"}))
    body = {**_AGGREGATION, "meter_id": meter, "code": aggregation.code, "version": 1}
    fewer = {"segmented_fields": ["region"], "segments": [{"region": "us"}]}
    refused(sdk.aggregations.update, "Pricing", "segment", "eu", id=aggregation.id, **body, **fewer)
