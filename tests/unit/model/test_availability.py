"""What this version does not calculate is refused; a value that means "off" is not."""

import pytest

from meterlake.model.availability import NOT_YET
from meterlake.model.errors import NotAvailable
from tests.organizations import after, changed

ID = "2054cfc5-18df-47ce-926c-5817033073b4"
BAND = {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}
DERIVED = {"category": "MEASURE", "code": "d", "name": "D", "calculation": "gb * 2"}

IN_USE = {
    "organizationConfig": {
        "monthEpoch": "2022-01-15",
        "scheduledBillInterval": 24,
        "standingChargeBillInAdvance": True,
        "autoApproveBillsGracePeriod": 1,
        "consolidateBills": True,
        "defaultStatementDefinitionId": ID,
        "billPrefix": "INVOICE-",
    },
    "meters": {"derivedFields": [DERIVED], "groupId": ID},
    "aggregations": {
        "aggregation": "CUSTOM_SQL",
        "segmentedFields": ["region"],
        "segments": [{"region": "*"}],
    },
    "planTemplates": {
        "billFrequency": "ANNUALLY",
        "billFrequencyInterval": 3,
        "standingChargeInterval": 2,
        "standingChargeOffset": 1,
        "standingChargeBillInAdvance": True,
        "minimumSpend": 5,
    },
    "plans": {"standingChargeBillInAdvance": True, "minimumSpend": 5},
    "pricings": {
        "compoundAggregationId": ID,
        "type": "GLOBAL_CREDIT",
        "segment": {"region": "eu"},
        "tiersSpanPlan": True,
        "minimumSpend": 5,
        "overagePricingBands": [BAND],
    },
    "accounts": {
        "parentAccountId": "bolt",
        "billEpoch": "2022-01-15",
        "statementDefinitionId": "anything",
    },
    "accountPlans": {"planGroupId": "gold", "billEpoch": "2022-01-15", "contractId": "c-1"},
}

OFF = {
    "organizationConfig": {
        "monthEpoch": "2024-02-01",
        "scheduledBillInterval": 0,
        "standingChargeBillInAdvance": False,
        "consolidateBills": False,
        "billPrefix": "",
        "minimumSpendBillInAdvance": True,
        "autoApproveBillsGracePeriodUnit": "DAYS",
    },
    "aggregations": {"segmentedFields": [], "segments": [], "customSql": ""},
    "planTemplates": {
        "billFrequencyInterval": 1,
        "standingChargeInterval": 1,
        "standingChargeOffset": 0,
        "standingChargeBillInAdvance": False,
        "minimumSpend": 0,
    },
    "plans": {"standingChargeBillInAdvance": False, "minimumSpend": 0},
    "pricings": {
        "type": "DEBIT",
        "segment": {},
        "tiersSpanPlan": False,
        "minimumSpend": 0,
        "overagePricingBands": [],
    },
}


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [(name, field, value) for name, fields in IN_USE.items() for field, value in fields.items()],
)
def test_what_would_silently_change_bills_is_refused(name, field, value):
    with pytest.raises(NotAvailable) as caught:
        after(changed(name, **{field: value}))

    assert f"{name}" in str(caught.value)
    assert f".{field} is not available in this version: " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [(name, field, value) for name, fields in OFF.items() for field, value in fields.items()],
)
def test_what_is_switched_off_is_accepted(name, field, value):
    after(changed(name, **{field: value}))


def test_every_row_of_the_table_is_tested_and_names_a_field():
    rows = sum(len(rows) for rows in NOT_YET.values())

    assert rows == sum(len(fields) for fields in IN_USE.values())
    assert all(row.field in kind.model_fields for kind, rows in NOT_YET.items() for row in rows)
