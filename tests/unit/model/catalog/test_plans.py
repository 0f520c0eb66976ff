from datetime import UTC, datetime

import pytest

from meterlake.model.catalog.plans import Plan, PlanTemplate, Pricing
from tests.entity_rules import refused, required

ID = "2054cfc5-18df-47ce-926c-5817033073b4"
BAND = {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}
TEMPLATE = {
    "code": "cloud",
    "name": "Cloud",
    "productId": ID,
    "currency": "USD",
    "standingCharge": 10,
    "billFrequency": "MONTHLY",
}
PLAN = {"code": "basic", "name": "Basic", "planTemplateId": ID, "standingCharge": 1}
PRICING = {
    "planId": ID,
    "aggregationId": ID,
    "startDate": "2026-01-01T00:00:00Z",
    "pricingBands": [BAND],
}


def test_what_is_required_is_what_the_contract_requires():
    assert required(PlanTemplate, TEMPLATE) == set(TEMPLATE) - {"code"}
    assert required(Plan, PLAN) == {"code", "name", "planTemplateId"}
    assert required(Pricing, PRICING) == {"startDate", "pricingBands"}


@pytest.mark.parametrize(
    "changes",
    [
        {"currency": "EURO"},
        {"currency": "EU"},
        {"standingCharge": -1},
        {"billFrequency": "HOURLY"},
        {"billFrequencyInterval": 0},
        {"billFrequencyInterval": 366},
        {"standingChargeInterval": 366},
        {"standingChargeOffset": 365},
        {"standingChargeOffset": -1},
        {"ordinal": -1},
        {"minimumSpend": -1},
        {"standingChargeDescription": "x" * 201},
        {"minimumSpendBillInAdvance": "yes"},
    ],
)
def test_a_template_that_breaks_the_contract_is_refused(changes):
    assert refused(PlanTemplate, TEMPLATE, **changes) == set(changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"planTemplateId": "cloud"},
        {"accountId": "acme"},
        {"standingCharge": "free"},
        {"bespoke": 1},
        {"minimumSpendDescription": "x" * 201},
        {"standingChargeAccountingProductId": "x"},
    ],
)
def test_a_plan_that_breaks_the_contract_is_refused(changes):
    assert refused(Plan, PLAN, **changes) == set(changes)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"pricingBands": [{}]}, "pricingBands[0].lowerLimit"),
        ({"pricingBands": [BAND | {"unitPrice": "1"}]}, "pricingBands[0].unitPrice"),
        ({"pricingBands": [BAND | {"lowerLimit": -1}]}, "pricingBands[0].lowerLimit"),
        ({"startDate": "2026-01-01"}, "startDate"),
        ({"type": "CREDIT"}, "type"),
        ({"segment": {"region": 1}}, "segment.region"),
        ({"cumulative": "true"}, "cumulative"),
        ({"description": "x" * 201}, "description"),
    ],
)
def test_a_pricing_that_breaks_the_contract_is_refused(changes, place):
    assert place in refused(Pricing, PRICING, **changes)


def test_a_price_may_be_negative():
    pricing = Pricing.from_wire(PRICING | {"pricingBands": [BAND | {"unitPrice": -1}]})

    assert pricing.pricing_bands[0].unit_price == -1


def test_an_instant_without_an_offset_is_utc():
    pricing = Pricing.from_wire(PRICING | {"startDate": "2026-01-01T00:00:00"})

    assert pricing.start_date == datetime(2026, 1, 1, tzinfo=UTC)
