from datetime import date

import pytest

from meterlake.model.money import RoundingMode
from meterlake.model.organization import Currency, CustomFields, OrganizationConfig
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


def test_a_kind_has_at_most_25_custom_fields():
    assert refused(CustomFields, {}, account={str(n): n for n in range(26)}) == {"account"}


def test_a_conversion_is_written_with_the_names_of_the_wire():
    rate = {"from": "EUR", "to": "USD", "multiplier": 2}
    config = OrganizationConfig.from_wire(CONFIG | {"currencyConversions": [rate]})

    assert config.to_wire()["currencyConversions"] == (rate,)
