"""What raw quantities are numbers of, and how they stand beside the units that are priced."""

from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.usage.quantity import (
    changed_texts,
    quantity_text,
    quantity_unit,
    units_text,
)

D = Decimal
METER = Meter.from_wire(
    {
        "code": "maps",
        "name": "Maps",
        "dataFields": [
            {"category": "MEASURE", "code": "n", "name": "Tiles", "unit": "tiles"},
            {"category": "MEASURE", "code": "bare", "name": "No unit"},
            {"category": "WHERE", "code": "region", "name": "Region", "unit": "place"},
        ],
        "derivedFields": [
            {
                "category": "MEASURE",
                "code": "area",
                "name": "Area",
                "calculation": "n * 4",
                "unit": "km2",
            }
        ],
    }
)
FIELDS = {
    "code": "a",
    "name": "A",
    "meterId": "1" * 8 + "-0000-4000-8000-" + "0" * 12,
    "rounding": "NONE",
    "unit": "1k tiles",
}


def unit(field, kind="SUM", per_unit=1000, meter=METER):
    more = {"customSql": "SELECT 1"} if kind == "CUSTOM_SQL" else {}
    aggregation = Aggregation.from_wire(
        FIELDS | {"targetField": field, "aggregation": kind, "quantityPerUnit": per_unit} | more
    )
    return quantity_unit(aggregation, meter)


@pytest.mark.parametrize("kind", ["SUM", "MIN", "MAX", "MEAN", "LATEST", "TIME_WEIGHTED_AVERAGE"])
def test_a_quantity_of_a_field_is_in_the_unit_of_the_field(kind):
    assert unit("n", kind) == "tiles"
    assert unit("area", kind) == "km2"
    assert unit("n", kind, per_unit=1) == "tiles"


def test_counts_are_numbers_of_what_is_counted():
    assert unit("n", "COUNT") == "measurements"
    assert unit("region", "UNIQUE") == "different values"
    # One of them is one unit.
    assert unit("n", "COUNT", per_unit=1) == "1k tiles"


def test_without_a_unit_of_the_field_only_one_to_one_says_it():
    assert unit("bare") is None
    assert unit("bare", per_unit=1) == "1k tiles"
    assert unit("gone") is None
    assert unit("n", meter=None) is None
    assert unit("n", "CUSTOM_SQL") is None


@pytest.mark.parametrize(("per_unit", "expected"), [(1000, None), (1, "1k tiles")])
def test_a_compound_quantity_has_no_field(per_unit, expected):
    fields = {name: FIELDS[name] for name in ("code", "name", "rounding", "unit")}
    compound = CompoundAggregation.from_wire(
        fields | {"quantityPerUnit": per_unit, "calculation": "aggregation.a * 2"}
    )

    assert quantity_unit(compound) == expected


def test_numbers_stand_with_their_units():
    assert quantity_text(D("80875.000"), "tiles") == "80,875 tiles"
    assert quantity_text(D("1E+3"), None) == "1,000"
    assert units_text(D("80.875"), "1k tiles") == "80.875 × 1k tiles"
    assert quantity_text(None, "tiles") is units_text(None, "x") is None
    side = {"quantity": "0", "units": "0.0", "unit": "1k tiles"}
    assert changed_texts({"before": None, "after": side, "quantityUnit": "tiles"}) == {
        "before": None,
        "units before": None,
        "after": "0 tiles",
        "units after": "0 × 1k tiles",
    }
