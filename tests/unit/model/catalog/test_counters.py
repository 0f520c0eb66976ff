"""The fields of counters, contracts and plan groups."""

import pytest

from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.plans import PlanGroup, PlanGroupLink
from meterlake.model.customers.accounts import EndDateBillingEntities
from meterlake.model.customers.contracts import Contract
from tests.entity_rules import refused, required

ID = "2054cfc5-18df-47ce-926c-5817033073b4"
DOCUMENTS = {
    Counter: ({"name": "Seats", "unit": "seat"}, {"name", "unit"}),
    CounterPricing: (
        {
            "startDate": "2026-01-01T00:00:00Z",
            "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 2}],
            "counterId": ID,
            "planId": ID,
        },
        {"startDate", "pricingBands", "counterId"},
    ),
    CounterAdjustment: (
        {"counterId": ID, "accountId": ID, "date": "2026-01-01", "value": 0},
        {"counterId", "accountId", "date", "value"},
    ),
    Contract: (
        {"accountId": ID, "name": "C", "startDate": "2026-01-01", "endDate": "2027-01-01"},
        {"accountId", "name", "startDate", "endDate"},
    ),
    PlanGroup: ({"name": "G", "currency": "USD", "code": "g"}, {"name", "currency"}),
    PlanGroupLink: ({"planGroupId": ID, "planId": ID}, {"planGroupId", "planId"}),
    CompoundAggregation: (
        {
            "name": "C",
            "rounding": "UP",
            "quantityPerUnit": 1,
            "unit": "u",
            "calculation": "1",
            "code": "c",
        },
        {"name", "rounding", "quantityPerUnit", "unit", "calculation"},
    ),
    EndDateBillingEntities: (
        {"endDate": "2026-01-01T00:00:00Z", "billingEntities": ["CONTRACT"]},
        {"endDate", "billingEntities"},
    ),
}


@pytest.mark.parametrize("kind", [kind for kind in DOCUMENTS if kind != EndDateBillingEntities])
def test_what_is_required_is_what_the_contract_requires(kind):
    document, needed = DOCUMENTS[kind]

    assert required(kind, document) == needed


@pytest.mark.parametrize(
    ("kind", "changes", "place"),
    [
        (Counter, {"unit": ""}, "unit"),
        (Counter, {"name": "x" * 201}, "name"),
        (Counter, {"code": "x" * 81}, "code"),
        (CounterPricing, {"pricingBands": []}, "pricingBands"),
        (CounterPricing, {"description": "x" * 201}, "description"),
        (CounterPricing, {"proRateRunningTotal": "yes"}, "proRateRunningTotal"),
        (CounterAdjustment, {"value": -1}, "value"),
        (CounterAdjustment, {"value": 2**31}, "value"),
        (CounterAdjustment, {"date": "2026-01-01T00:00:00Z"}, "date"),
        (CounterAdjustment, {"purchaseOrderNumber": "x" * 101}, "purchaseOrderNumber"),
        (Contract, {"description": "x" * 501}, "description"),
        (Contract, {"purchaseOrderNumber": "x" * 101}, "purchaseOrderNumber"),
        (Contract, {"endDate": "2027-01-01T00:00:00Z"}, "endDate"),
        (
            Contract,
            {"usageFilters": [{"dimensionCode": "a", "value": "b", "mode": "ONLY"}]},
            "usageFilters[0].mode",
        ),
        (
            Contract,
            {"usageFilters": [{"dimensionCode": "a", "value": "", "mode": "EXCLUDE"}]},
            "usageFilters[0].value",
        ),
        (PlanGroup, {"currency": "EURO"}, "currency"),
        (PlanGroup, {"minimumSpend": -1}, "minimumSpend"),
        (PlanGroup, {"standingChargeDescription": "x" * 201}, "standingChargeDescription"),
        (PlanGroupLink, {"planId": "basic"}, "planId"),
        (CompoundAggregation, {"calculation": ""}, "calculation"),
        (CompoundAggregation, {"calculation": "1" * 5001}, "calculation"),
        (CompoundAggregation, {"quantityPerUnit": 0}, "quantityPerUnit"),
        (CompoundAggregation, {"unit": "u" * 51}, "unit"),
        (CompoundAggregation, {"code": "1c"}, "code"),
    ],
)
def test_what_breaks_the_contract_is_refused(kind, changes, place):
    assert refused(kind, DOCUMENTS[kind][0], **changes) == {place}


def test_limits_are_allowed_to_be_reached():
    CounterAdjustment.from_wire(DOCUMENTS[CounterAdjustment][0] | {"value": 2**31 - 1})
    Contract.from_wire(DOCUMENTS[Contract][0] | {"description": "x" * 500})
    CompoundAggregation.from_wire(DOCUMENTS[CompoundAggregation][0] | {"calculation": "1" * 5000})
    Counter.from_wire({"name": "x" * 200, "unit": "x"})


def test_counters_are_prorated_and_billed_in_advance_unless_told_otherwise():
    wire = CounterPricing.from_wire(DOCUMENTS[CounterPricing][0]).to_wire()

    assert {name: value for name, value in wire.items() if isinstance(value, bool)} == {
        "cumulative": False,
        "runningTotalBillInAdvance": True,
        "proRateRunningTotal": True,
        "proRateAdjustmentDebit": True,
        "proRateAdjustmentCredit": True,
    }
