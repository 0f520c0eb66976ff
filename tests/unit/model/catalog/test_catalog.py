import pytest

from meterlake.model.catalog.catalog import Aggregation, Meter, Product
from meterlake.model.measurements.measurement import Category
from tests.entity_rules import refused, required

ID = "2054cfc5-18df-47ce-926c-5817033073b4"
PRODUCT = {"code": "cloud", "name": "Cloud"}
FIELD = {"category": "MEASURE", "code": "gb", "name": "Sent"}
METER = {
    "code": "egress",
    "name": "Egress",
    "dataFields": [FIELD],
    "derivedFields": [],
    "productId": ID,
}
AGGREGATION = {
    "code": "egress_gb",
    "name": "Egress",
    "meterId": ID,
    "targetField": "gb",
    "aggregation": "SUM",
    "rounding": "NONE",
    "quantityPerUnit": 1,
    "unit": "GB",
    "defaultValue": 0,
}


def test_what_is_required_is_what_the_contract_requires():
    assert required(Product, PRODUCT) == {"code", "name"}
    assert required(Meter, METER) == {"code", "name", "dataFields"}
    assert required(Aggregation, AGGREGATION) == {
        "name", "meterId", "targetField", "aggregation", "rounding", "quantityPerUnit", "unit",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"dataFields": [FIELD | {"code": "1gb"}]}, "dataFields[0].code"),
        ({"dataFields": [FIELD | {"category": "TIME"}]}, "dataFields[0].category"),
        ({"dataFields": [FIELD | {"unit": ""}]}, "dataFields[0].unit"),
        ({"dataFields": [FIELD, {}]}, "dataFields[1].code"),
        ({"dataFields": None}, "dataFields"),
        ({"derivedFields": [FIELD]}, "derivedFields[0].calculation"),
        ({"derivedFields": [FIELD | {"calculation": "x" * 5001}]}, "derivedFields[0].calculation"),
        ({"productId": "cloud"}, "productId"),
        ({"code": "e" * 81}, "code"),
    ],
)
def test_a_meter_that_breaks_the_contract_is_refused(changes, place):
    assert place in refused(Meter, METER, **changes)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"aggregation": "MEDIAN"}, "aggregation"),
        ({"rounding": "HALF_UP"}, "rounding"),
        ({"quantityPerUnit": 0}, "quantityPerUnit"),
        ({"unit": "u" * 51}, "unit"),
        ({"code": "egress gb"}, "code"),
        ({"defaultValue": -1}, "defaultValue"),
        ({"segmentedFields": ["f"] * 6}, "segmentedFields"),
        ({"segments": [{"f": 1}]}, "segments[0].f"),
        ({"segments": [{}] * 1001}, "segments"),
        ({"customSql": "x" * 2049}, "customSql"),
    ],
)
def test_an_aggregation_that_breaks_the_contract_is_refused(changes, place):
    assert refused(Aggregation, AGGREGATION, **changes) == {place}


def test_a_meter_knows_the_category_of_its_fields():
    meter = Meter.from_wire(METER)

    assert meter.category("gb") is Category.MEASURE
    assert meter.category("region") is None
