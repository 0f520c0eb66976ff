"""One function says what a custom field is worth, for every kind and every calculation."""

from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.configuration.custom_fields import custom_value
from meterlake.model.configuration.organization import CustomFields
from meterlake.model.customers.balances import Balance

DEFAULTS = CustomFields(
    organization={"region": "eu"},
    meter={"weight": Decimal(2), "unit": "GB"},
    product={"tier": "basic"},
)
METER = Meter(
    name="m",
    code="m",
    data_fields=({"category": "MEASURE", "code": "n", "name": "n"},),
    derived_fields=(),
    custom_fields={"weight": Decimal(3)},
)


def test_an_entity_s_own_value_wins():
    assert custom_value("weight", METER, DEFAULTS) == Decimal(3)


def test_what_an_entity_does_not_carry_is_the_organization_s():
    assert custom_value("unit", METER, DEFAULTS) == "GB"
    assert custom_value("tier", Product(name="p", code="p"), DEFAULTS) == "basic"


def test_to_a_compound_a_meter_s_field_is_always_the_organization_s():
    assert custom_value("weight", METER, DEFAULTS, in_compound=True) == Decimal(2)


def test_to_a_compound_other_entities_keep_their_own():
    product = Product(name="p", code="p", custom_fields={"tier": "gold"})

    assert custom_value("tier", product, DEFAULTS, in_compound=True) == "gold"


def test_the_organization_has_fields_of_its_own():
    assert custom_value("region", None, DEFAULTS) == "eu"


@pytest.mark.parametrize("entity", [None, METER])
def test_a_field_that_does_not_exist_is_no_value(entity):
    assert custom_value("nothing", entity, DEFAULTS) is None


def test_a_kind_without_a_level_of_the_organization_has_what_it_carries():
    balance = Balance.model_construct(custom_fields={"a": "b"})

    assert custom_value("a", balance, DEFAULTS) == "b"
    assert custom_value("region", balance, DEFAULTS) is None
