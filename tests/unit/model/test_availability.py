"""What this version does not calculate is refused; a value that means "off" is not."""

import pytest
from pydantic import TypeAdapter

from meterlake.model.availability import NOT_YET
from meterlake.model.resources import BY_NAME

ID = "2054cfc5-18df-47ce-926c-5817033073b4"

IN_USE = {
    "planTemplates": {"billFrequency": "AD_HOC"},
}

OFF = {
    "organizationConfig": {
        "monthEpoch": "2022-01-15",
        "standingChargeBillInAdvance": True,
        "consolidateBills": True,
        "billPrefix": "INVOICE-",
        "minimumSpendBillInAdvance": True,
    },
    "aggregations": {"aggregation": "CUSTOM_SQL", "segments": [{"region": "*"}], "customSql": ""},
    "planTemplates": {"billFrequency": "ANNUALLY", "minimumSpend": 5},
    "plans": {"standingChargeBillInAdvance": True, "minimumSpend": 5},
    "pricings": {
        "type": "GLOBAL_CREDIT",
        "segment": {"region": "eu"},
        "tiersSpanPlan": True,
        "compoundAggregationId": ID,
    },
}


def refused(name, field, value):
    """Whether the table refuses a value, read as the wire has it."""
    kind = BY_NAME[name].entity
    attribute = next(a for a, each in kind.model_fields.items() if each.alias == field)
    annotation = kind.model_fields[attribute].rebuild_annotation()
    read = TypeAdapter(annotation).validate_python(value)
    rows = [row for row in NOT_YET.get(kind, ()) if row.field == attribute]
    return any(row.in_use(read) for row in rows)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [(name, field, value) for name, fields in IN_USE.items() for field, value in fields.items()],
)
def test_what_would_silently_change_bills_is_refused(name, field, value):
    assert refused(name, field, value)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [(name, field, value) for name, fields in OFF.items() for field, value in fields.items()],
)
def test_what_is_switched_off_is_accepted(name, field, value):
    assert not refused(name, field, value)


def test_every_row_of_the_table_is_tested_and_names_a_field():
    rows = sum(len(rows) for rows in NOT_YET.values())

    assert rows == sum(len(fields) for fields in IN_USE.values())
    assert all(row.field in kind.model_fields for kind, rows in NOT_YET.items() for row in rows)
