"""Rules of meters, aggregations and compound aggregations."""

from decimal import Decimal

import pytest
from pydantic import ValidationError

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.catalog.plans import Pricing
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.errors import Invalid
from meterlake.model.rules.catalog.compound import compound_segments
from tests.rule_world import (
    COMPOUND,
    DERIVED,
    GB,
    KEY,
    PRICING,
    REGION,
    TIER,
    market,
    subscribed,
)

FIELDS = [GB, REGION, TIER, KEY]


@pytest.mark.parametrize("code", ["gb", "GB", "place", "PLACE"])
def test_codes_of_data_and_derived_fields_differ_whatever_their_case(code):
    derived = [*DERIVED, DERIVED[0] | {"code": code}]

    with pytest.raises(
        Invalid, match=r"derivedFields\[2\].code.*has this code in other letter case"
    ):
        market().change(Meter, "calls", derivedFields=derived)
    market().change(Meter, "calls", derivedFields=[*DERIVED, DERIVED[0] | {"code": "other"}])


@pytest.mark.parametrize(
    ("reduce", "numbers", "texts"),
    [
        ("SUM", True, False),
        ("MIN", True, False),
        ("MAX", True, False),
        ("MEAN", True, False),
        ("LATEST", True, False),
        ("COUNT", True, True),
        ("UNIQUE", False, True),
        ("TIME_WEIGHTED_AVERAGE", True, False),
    ],
)
def test_an_aggregation_type_reads_fields_of_its_categories(reduce, numbers, texts):
    allowed = {"gb": numbers, "cost": numbers, "region": texts, "key": texts, "place": texts}
    for field, free in allowed.items():
        world = market()
        if free:
            world.change(Aggregation, "calls_gb", aggregation=reduce, targetField=field)
        else:
            with pytest.raises(Invalid, match=r"targetField.*a field of (text|numbers) for"):
                world.change(Aggregation, "calls_gb", aggregation=reduce, targetField=field)


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        ({"aggregation": "CUSTOM_SQL"}, False),
        ({"aggregation": "CUSTOM_SQL", "customSql": " "}, False),
        ({"customSql": "SELECT 1"}, False),
        ({"aggregation": "CUSTOM_SQL", "customSql": "SELECT 1"}, True),
        ({"aggregation": "CUSTOM_SQL", "customSql": "SELECT 1", "targetField": "key"}, True),
        ({"customSql": ""}, True),
    ],
)
def test_custom_sql_and_nothing_else_has_a_query(fields, free):
    if free:
        market().change(Aggregation, "calls_gb", **fields)
    else:
        with pytest.raises(Invalid, match=r"customSql.*(needs a query|has no query)"):
            market().change(Aggregation, "calls_gb", **fields)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (["gb"], r"segmentedFields\[0\].*a field of WHO, WHERE, WHAT, OTHER; it is a MEASURE"),
        (["region", "cost"], r"segmentedFields\[1\].*it is a COST field"),
        (["key"], "it is a METADATA field"),
        (["nowhere"], "a field of meter 'calls'"),
        (["region", "region"], "a field that is not named before"),
    ],
)
def test_usage_is_segmented_by_texts_of_the_meter(fields, sentence):
    with pytest.raises(Invalid, match=sentence):
        market().change(Aggregation, "calls_gb", segmentedFields=fields)


def test_usage_is_segmented_by_derived_texts_too():
    fields = ["region", "tier", "place"]

    market().change(
        Aggregation, "calls_gb", segmentedFields=fields, segments=[{"place": "eu", "tier": "*"}]
    )


@pytest.mark.parametrize(
    ("segments", "sentence"),
    [
        (
            [{"tier": "gold"}],
            r"segments\[0\].tier: 'tier' is not allowed: it must be one of segmentedFields",
        ),
        ([{"region": "eu"}, {"region": "eu"}], r"segments\[1\].*that no other segment has"),
        ([{"region": "*"}, {"region": "*"}], r"segments\[1\].*that no other segment has"),
        ([{}], r"segments\[0\]"),
        ([], "segments.*at least one segment with segmentedFields"),
    ],
)
def test_a_segment_names_segmented_fields_only(segments, sentence):
    with pytest.raises(Invalid, match=sentence):
        market().change(Aggregation, "calls_gb", segmentedFields=["region"], segments=segments)


def test_a_segment_may_be_a_wildcard_or_name_some_of_the_fields():
    segments = [{"region": "eu", "tier": "*"}, {"region": "*"}]

    market().change(Aggregation, "calls_gb", segmentedFields=["region", "tier"], segments=segments)


def test_a_field_that_a_segment_leaves_out_is_a_wildcard():
    segments = [{"region": "eu", "tier": "*"}, {"region": "eu"}]

    with pytest.raises(Invalid, match=r"segments\[1\].*that no other segment has"):
        market().change(
            Aggregation, "calls_gb", segmentedFields=["region", "tier"], segments=segments
        )


@pytest.mark.parametrize(
    ("fields", "free"),
    [
        ({"aggregation": "PERCENTILE"}, False),
        ({"aggregation": "PERCENTILE", "percentile": 95}, True),
        ({"aggregation": "PERCENTILE", "percentile": 100}, True),
        ({"aggregation": "PERCENTILE", "percentile": Decimal("99.999")}, True),
        ({"aggregation": "PERCENTILE", "percentile": 0}, False),
        ({"aggregation": "PERCENTILE", "percentile": Decimal("100.001")}, False),
        ({"percentile": 95}, False),
        ({"aggregation": "TIME_WEIGHTED_AVERAGE"}, True),
    ],
)
def test_percentile_and_nothing_else_has_a_percentile(fields, free):
    if free:
        market().change(Aggregation, "calls_gb", **fields)
    else:
        with pytest.raises((Invalid, ValidationError), match="percentile"):
            market().change(Aggregation, "calls_gb", **fields)


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ([REGION, TIER, KEY], "gb"),
        ([GB | {"category": "INCOME"}, REGION, TIER, KEY], "gb"),
        ([GB, TIER, KEY], "region"),
        ([GB, REGION | {"category": "METADATA"}, TIER, KEY], "region"),
    ],
)
def test_a_field_that_is_aggregated_or_segmented_by_stays(fields, read):
    segments = {"segmentedFields": ["region"], "segments": [{"region": "*"}]}
    world = market().change(Aggregation, "calls_gb", **segments)

    with pytest.raises(Invalid, match=f"{read!r} is not allowed: aggregation .* reads it"):
        world.change(Meter, "calls", dataFields=fields)
    world.change(Meter, "calls", dataFields=[GB, REGION, TIER])


def test_a_derived_field_that_is_aggregated_stays():
    world = market().change(Aggregation, "calls_gb", targetField="cost")

    with pytest.raises(
        Invalid,
        match="'cost' is not allowed: aggregation 'calls_gb' reads it as a field of category COST",
    ):
        world.change(Meter, "calls", derivedFields=[DERIVED[1]])
    world.change(Meter, "calls", derivedFields=[DERIVED[0]])


@pytest.mark.parametrize(
    ("calculation", "sentence"),
    [
        (" ", "a formula, not only spaces"),
        ("(aggregation.calls_gb", "a closing parenthesis"),
        ("aggregation.calls_gb)", "a closing parenthesis"),
        (")(", "a closing parenthesis"),
        ('isnull("a, 1)', "a closing quote"),
        ("aggregation.nothing * 2", "calculation.*nothing"),
    ],
)
def test_a_broken_calculation_is_refused(calculation, sentence):
    with pytest.raises(Invalid, match=sentence):
        market().put(CompoundAggregation, "c", **COMPOUND, calculation=calculation)


@pytest.mark.parametrize(
    "calculation",
    [
        "1",
        "customFields.meter.price * 2",
        "(aggregation.calls_gb + aggregation.egress_gb) / 2",
        'length(aggregation.calls_gb > 0 ? "aggregation.nothing)" : "")',
    ],
)
def test_a_whole_calculation_is_accepted(calculation):
    world = market().put(CustomFields, "2", meter={"price": 2})
    world.put(CompoundAggregation, "c", **COMPOUND, calculation=calculation)


def test_a_calculation_names_each_aggregation_once():
    compound = CompoundAggregation.from_wire(
        COMPOUND | {"calculation": "aggregation.b + aggregation . a_1 * aggregation.b"}
    )

    assert compound.aggregation_codes == ("b", "a_1")


@pytest.mark.parametrize(
    ("product", "code", "free"),
    [
        ("@cloud", "egress_gb", True),
        ("@cloud", "calls_gb", True),
        ("@shop", "calls_gb", True),
        ("@shop", "egress_gb", False),
        (None, "egress_gb", True),
    ],
)
def test_a_compound_of_a_product_reads_that_product_and_global_ones(product, code, free):
    fields = {**COMPOUND, "calculation": f"aggregation.{code}", "productId": product}
    if free:
        market().put(CompoundAggregation, "c", **fields)
    else:
        with pytest.raises(Invalid, match="an aggregation of the same product, or a global one"):
            market().put(CompoundAggregation, "c", **fields)


def compounded(product="@shop"):
    return market().put(
        CompoundAggregation,
        "c",
        **COMPOUND,
        code="c",
        calculation="aggregation.calls_gb",
        productId=product,
    )


def test_what_a_compound_reads_stays_in_its_reach():
    with pytest.raises(Invalid, match="CompoundAggregation 'c'"):
        compounded().change(Meter, "calls", productId="@cloud")
    with pytest.raises(Invalid, match="CompoundAggregation 'c'"):
        compounded().change(Aggregation, "calls_gb", meterId="@egress")
    compounded().change(Meter, "calls", productId="@shop")
    compounded("@cloud").change(Aggregation, "calls_gb", meterId="@egress")


def test_what_a_compound_reads_keeps_its_code():
    with pytest.raises(Invalid, match="compound aggregation 'c' names it by 'calls_gb'"):
        compounded().change(Aggregation, "calls_gb", code="other")
    compounded().change(Aggregation, "egress_gb", code="other")


def segmented(*segments):
    return [{"region": segment} for segment in segments]


def test_a_compound_has_the_segments_that_its_aggregations_have_in_common():
    world = market()
    for code, names in (("calls_gb", ("eu", "us", "*")), ("egress_gb", ("us", "*", "asia"))):
        world.change(Aggregation, code, segmentedFields=["region"], segments=segmented(*names))
    for name, calculation in (
        ("one", "aggregation.calls_gb"),
        ("two", "aggregation.calls_gb - aggregation.egress_gb"),
        ("none", "1"),
    ):
        world.put(CompoundAggregation, name, **COMPOUND, calculation=calculation)

    found = {
        name: compound_segments(world.has(CompoundAggregation, name), world.configuration)
        for name in ("one", "two", "none")
    }

    assert found == {
        "one": {"segments": segmented("eu", "us", "*")},
        "two": {"segments": segmented("us", "*")},
        "none": {},
    }


def test_a_segment_with_a_price_stays():
    world = subscribed()
    world.change(
        Aggregation, "egress_gb", segmentedFields=["region"], segments=segmented("eu", "us")
    )
    world.change(Pricing, "price", segment={"region": "eu"})

    with pytest.raises(Invalid, match="one of the segments of the aggregation"):
        world.change(Aggregation, "egress_gb", segments=segmented("us"))
    world.change(Aggregation, "egress_gb", segments=segmented("eu"))


def test_a_segment_with_a_price_through_a_compound_stays():
    world = compounded().change(
        Aggregation, "calls_gb", segmentedFields=["region"], segments=segmented("eu", "us")
    )
    world.put(
        Pricing,
        "p",
        **PRICING,
        planId="@shop plan",
        compoundAggregationId="@c",
        segment={"region": "eu"},
    )

    with pytest.raises(Invalid, match=r"segments.*Pricing"):
        world.change(Aggregation, "calls_gb", segments=segmented("us"))
    with pytest.raises(Invalid, match="one of the segments of the aggregation"):
        world.change(CompoundAggregation, "c", calculation="1")
    world.change(Aggregation, "calls_gb", segments=segmented("eu"))


def test_a_segmented_price_needs_an_aggregation_of_that_segment():
    with pytest.raises(Invalid, match=r"segment.*one of the segments of the aggregation"):
        subscribed().change(Pricing, "price", segment={"region": "eu"})
