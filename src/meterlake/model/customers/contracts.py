"""What was agreed with an account for a time."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import Code, CustomFieldMap, Day, Flag, Id, Name, Text


class UsageFilterMode(StrEnum):
    """Whether a filter lets the usage through that it describes, or all but that."""

    INCLUDE = "INCLUDE"
    EXCLUDE = "EXCLUDE"


class UsageFilter(Value):
    """Restricts the usage that a contract charges by the value of a meter's text field."""

    dimension_code: Annotated[Text, Field(min_length=1, max_length=80)]
    value: Annotated[Text, Field(min_length=1, max_length=1024)]
    mode: UsageFilterMode


class Contract(Entity):
    """An agreement with an account: start inclusive, end exclusive, days of the organization."""

    account_id: Id
    name: Name
    start_date: Day
    end_date: Day
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    code: Code | None = None
    description: Annotated[Text, Field(max_length=500)] | None = None
    purchase_order_number: Annotated[Text, Field(max_length=100)] | None = None
    apply_contract_period_limits: Flag = False
    usage_filters: Annotated[tuple[UsageFilter, ...], Field(max_length=1000)] = ()
    bill_grouping_key_id: Id | None = None
