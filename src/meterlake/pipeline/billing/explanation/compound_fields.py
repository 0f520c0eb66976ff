"""The custom fields that compound aggregations of a bill were calculated with."""

from collections.abc import Mapping
from typing import Any

from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period
from meterlake.pipeline.billing.calculation.account_bills import BillCalculation
from meterlake.stages.bill.explain.context import CompoundFields
from meterlake.stages.usage.compound import AccountFields, OwnFields, read_compound


def find_fields(calculation: BillCalculation, account_fields: AccountFields) -> CompoundFields:
    """What finds the custom fields of an account in a period that a formula names."""
    terms, left_out = calculation.terms, calculation.usage.left_out

    def fields(record: Record[CompoundAggregation], group: tuple[str, Period]) -> Mapping[str, Any]:
        compound = read_compound(record, terms.configuration, left_out)
        if isinstance(compound, str):
            return {}
        owners = terms.usage_owners
        return OwnFields(terms.configuration, account_fields, compound, owners=owners)(group)

    return fields
