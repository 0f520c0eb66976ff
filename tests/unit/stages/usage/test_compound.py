"""Quantities that are calculated from quantities, against the numbers one would expect."""

from decimal import Decimal

import pytest

from meterlake.model.bills.bill import Quantity
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.scopes.compound import CompoundScope
from meterlake.model.values.period import Month
from meterlake.model.values.period import zone as time_zone
from meterlake.stages.usage.compound import (
    Compound,
    CompoundQuantity,
    Uncalculated,
    Used,
    calculate,
)
from tests.rule_world import COMPOUND, market

OCTOBER = Month(2026, 10).period(time_zone("UTC"))
EU, US, ANY = (tuple({"region": name}.items()) for name in ("eu", "us", "*"))


def made(calculation, calls=(), egress=(), **fields):
    """A world with a compound aggregation, and how it is calculated."""
    world = market().put(CustomFields, "2", account={"rate": 3})
    for code, changes in (("calls_gb", calls), ("egress_gb", egress)):
        world.change(Aggregation, code, **dict(changes))
    world.put(CompoundAggregation, "c", **(COMPOUND | fields), calculation=calculation)
    record = world.has(CompoundAggregation, "c")
    scope = CompoundScope(record.entity, world.configuration)
    parts = tuple(scope.parts())
    return Compound(record, scope.check(), parts, scope.constants(), scope.own_defaults)


def quantity(compound, code, value, segment=None, account="a", measurements=1):
    [part] = [each for each in compound.parts if each.entity.code == code]
    found = Quantity.of(account, part, OCTOBER, Decimal(value), measurements)
    return found._replace(segment=segment)


def results(compound, *quantities, accounts=("a",), own=None):
    groups = [(account, OCTOBER) for account in accounts]
    found = calculate(
        compound, Used(quantities), groups, lambda group: (own or {}).get(group[0], {})
    )
    return [each.quantity if isinstance(each, CompoundQuantity) else each for each in found]


def values(found):
    return {(each.account_id, each.segment): each.value for each in found}


def test_parts_count_before_their_unit_and_rounding_and_the_result_has_its_own():
    rounded = {"quantityPerUnit": 10, "rounding": "UP"}
    compound = made("aggregation.calls_gb * 2", calls=rounded, quantityPerUnit=100, rounding="UP")
    [found] = results(compound, quantity(compound, "calls_gb", "100.5", measurements=7))

    assert (found.value, found.units, found.unit) == (201, 3, "GB")
    assert (found.measurements, found.aggregation_version, found.meter_id) == (7, 1, "")


@pytest.mark.parametrize(
    ("evaluates", "default", "expected"),
    [(False, None, []), (False, 0, [5]), (True, 0, [5]), (True, None, [])],
)
def test_without_usage_of_a_part_there_is_no_quantity_unless_something_says_so(
    evaluates, default, expected
):
    compound = made(
        "aggregation.calls_gb + aggregation.egress_gb",
        egress={} if default is None else {"defaultValue": default},
        evaluateNullAggregations=evaluates,
    )

    found = results(compound, quantity(compound, "calls_gb", 5))
    assert [each.value for each in found] == expected


def test_a_calculation_can_say_what_a_null_is_worth():
    compound = made(
        "isnull(aggregation.calls_gb, 100) + isnull(aggregation.egress_gb, 1)",
        evaluateNullAggregations=True,
    )

    assert values(results(compound, quantity(compound, "calls_gb", 5), accounts=("a", "b"))) == {
        ("a", None): 6,
        ("b", None): 101,
    }
    assert compound.needs_no_usage


def test_an_account_s_own_custom_field_beats_the_organization_s():
    compound = made("customFields.account.rate * 2")
    own = {"a": {"customFields.account.rate": Decimal(10), "customFields.account.other": "x"}}

    assert values(results(compound, accounts=("a", "b"), own=own)) == {
        ("a", None): 20,
        ("b", None): 6,
    }


def test_what_cannot_be_calculated_for_one_account_stops_no_other():
    compound = made("1 / aggregation.calls_gb + customFields.account.rate")
    used = [quantity(compound, "calls_gb", n, account=name) for name, n in (("a", 0), ("b", 4))]
    used.append(quantity(compound, "calls_gb", 1, account="c"))
    own = {"c": {"customFields.account.rate": "three"}}
    first, second, third = results(compound, *used, accounts=("a", "b", "c"), own=own)

    assert isinstance(first, Uncalculated)
    assert "zero" in first.detail
    assert isinstance(second, Quantity)
    assert second.value == Decimal("3.25")
    assert isinstance(third, Uncalculated)
    assert "one type" in third.detail


def test_an_own_custom_field_of_another_type_is_no_number():
    own = {"a": {"customFields.account.rate": "three"}}
    [found] = results(made("customFields.account.rate"), own=own)

    assert isinstance(found, Uncalculated)
    assert "text where a number is needed" in found.detail


def segmented(*names):
    return {"segmentedFields": ["region"], "segments": [{"region": name} for name in names]}


def test_of_one_segmented_part_the_result_has_its_segments():
    compound = made(
        "aggregation.calls_gb - aggregation.egress_gb", calls=segmented("eu", "us", "*")
    )
    found = results(
        compound,
        quantity(compound, "calls_gb", 10, EU),
        quantity(compound, "calls_gb", 20, ANY),
        quantity(compound, "egress_gb", 1),
    )

    # Nothing was used in the US; what has no segments is the same for each.
    assert values(found) == {("a", EU): 9, ("a", ANY): 19}


def test_of_several_segmented_parts_it_has_those_that_they_share():
    compound = made(
        "aggregation.calls_gb - aggregation.egress_gb",
        calls=segmented("eu", "us"),
        egress=segmented("us", "*", "eu"),
    )
    found = results(
        compound,
        *(quantity(compound, "calls_gb", n, each) for n, each in ((10, EU), (20, US))),
        *(quantity(compound, "egress_gb", n, each) for n, each in ((1, EU), (2, US), (4, ANY))),
    )

    assert values(found) == {("a", EU): 9, ("a", US): 18}


def test_parts_without_a_segment_in_common_have_no_result():
    compound = made(
        "aggregation.calls_gb - aggregation.egress_gb",
        calls=segmented("eu"),
        egress=segmented("us"),
    )

    assert compound.segments() == []
    assert results(compound, quantity(compound, "calls_gb", 1, EU)) == []


def test_the_default_of_a_segmented_part_stands_for_each_segment_without_usage():
    compound = made("aggregation.calls_gb + 1", calls=segmented("eu", "us") | {"defaultValue": 0})
    found = results(compound, quantity(compound, "calls_gb", 5, EU))

    assert values(found) == {("a", EU): 6, ("a", US): 1}


def test_measurements_of_one_meter_count_once():
    compound = made("aggregation.calls_gb + aggregation.calls_gb / aggregation.egress_gb")
    [found] = results(
        compound,
        quantity(compound, "calls_gb", 2, measurements=3),
        quantity(compound, "egress_gb", 4, measurements=5),
    )

    assert (found.value, found.measurements) == (Decimal("2.5"), 8)
