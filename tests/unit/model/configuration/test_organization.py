"""One function says what a custom field is worth, for every kind and every calculation."""

from datetime import date
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.configuration.organization import (
    BILL_INTERVALS,
    BillConfig,
    Currency,
    CustomFields,
    OrganizationConfig,
    custom_value,
)
from meterlake.model.customers.balances import Balance
from meterlake.model.resources import RESOURCES
from meterlake.model.rules.organization import CURRENCY_FIELDS
from meterlake.model.values.money import RoundingMode
from tests.entity_rules import refused, required

CONFIG = {"daysBeforeBillDue": 30, "timezone": "UTC"}


def test_what_is_required_and_has_no_default_in_the_contract_is_required():
    assert required(OrganizationConfig, CONFIG) == {"daysBeforeBillDue"}
    assert required(Currency, {"code": "USD", "name": "US dollar"}) == {"name"}


def test_defaults_are_those_of_the_contract():
    config = OrganizationConfig.from_wire(CONFIG)
    currency = Currency.from_wire({"name": "US dollar"})

    assert (config.timezone, config.currency) == ("UTC", "USD")
    assert config.day_epoch == config.month_epoch == config.year_epoch == date(2022, 1, 1)
    assert config.week_epoch == date(2022, 1, 4)
    assert (currency.max_decimal_places, currency.rounding_mode) == (2, RoundingMode.HALF_UP)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        (
            {"currencyConversions": [{"from": "EUR", "to": "USD"}]},
            "currencyConversions[0].multiplier",
        ),
        (
            {"currencyConversions": [{"from": "EUR", "to": "USD", "multiplier": 0}]},
            "currencyConversions[0].multiplier",
        ),
        (
            {"currencyConversions": [{"from": "", "to": "USD", "multiplier": 1}]},
            "currencyConversions[0].from",
        ),
        ({"externalInvoiceDate": "TOMORROW"}, "externalInvoiceDate"),
        ({"autoApproveBillsGracePeriodUnit": "WEEKS"}, "autoApproveBillsGracePeriodUnit"),
        ({"dayEpoch": "2022-13-01"}, "dayEpoch"),
        ({"scheduledBillOffset": -1}, "scheduledBillOffset"),
        ({"scheduledBillInterval": 5}, "scheduledBillInterval"),
        ({"scheduledBillInterval": -1}, "scheduledBillInterval"),
        ({"creditApplicationOrder": ["BALANCE", "BALANCE"]}, "creditApplicationOrder"),
        ({"creditApplicationOrder": ["CREDIT"]}, "creditApplicationOrder[0]"),
        ({"autoApproveBillsGracePeriod": 0}, "autoApproveBillsGracePeriod"),
        ({"daysBeforeBillDue": 0}, "daysBeforeBillDue"),
        ({"allowOverlappingPlans": "no"}, "allowOverlappingPlans"),
        ({"timezone": ""}, "timezone"),
    ],
)
def test_settings_that_break_the_contract_are_refused(changes, place):
    assert refused(OrganizationConfig, CONFIG, **changes) == {place}


@pytest.mark.parametrize(
    "changes",
    [
        {"maxDecimalPlaces": 6},
        {"maxDecimalPlaces": -1},
        {"roundingMode": "NEAREST"},
        {"code": "US$ "},
    ],
)
def test_a_currency_that_breaks_the_contract_is_refused(changes):
    assert refused(Currency, {"name": "US dollar"}, **changes) == set(changes)


@pytest.mark.parametrize("kind", [each.alias for each in CustomFields.model_fields.values()])
def test_a_kind_has_at_most_25_custom_fields(kind):
    assert refused(CustomFields, {}, **{kind: {str(n): n for n in range(26)}}) == {kind}
    assert CustomFields.from_wire({kind: {str(n): n for n in range(25)}})


@pytest.mark.parametrize("hours", BILL_INTERVALS)
def test_every_interval_of_the_contract_is_taken(hours):
    document = CONFIG | {"scheduledBillInterval": hours}

    assert OrganizationConfig.from_wire(document).scheduled_bill_interval == hours


def test_a_lock_date_is_a_date_or_none():
    assert refused(BillConfig, {}, billLockDate="2026-02-30") == {"billLockDate"}
    assert BillConfig.from_wire({}).bill_lock_date is None


def test_whatever_names_a_currency_keeps_its_code():
    fields = {
        path
        for row in RESOURCES
        for path, kind in row.codes.items()
        if kind is Currency and row.entity is not OrganizationConfig
    }

    assert fields == set(CURRENCY_FIELDS)


def test_a_conversion_is_written_with_the_names_of_the_wire():
    rate = {"from": "EUR", "to": "USD", "multiplier": 2}
    config = OrganizationConfig.from_wire(CONFIG | {"currencyConversions": [rate]})

    assert config.to_wire()["currencyConversions"] == (rate,)


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
