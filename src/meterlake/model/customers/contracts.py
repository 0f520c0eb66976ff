"""What was agreed with an account for a time: contracts, and the amounts that it commits to."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.configuration.organization import CurrencyCode
from meterlake.model.customers.accounts import ChildBillingMode
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import (
    Code,
    CustomFieldMap,
    Day,
    Description,
    Flag,
    Id,
    Instant,
    Integer,
    Name,
    NonNegative,
    Number,
    Positive,
    Text,
)


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


class CommitmentLineItemType(StrEnum):
    """A type of bill line that may draw a commitment down."""

    STANDING_CHARGE = "STANDING_CHARGE"
    USAGE = "USAGE"
    MINIMUM_SPEND = "MINIMUM_SPEND"
    COUNTER_RUNNING_TOTAL_CHARGE = "COUNTER_RUNNING_TOTAL_CHARGE"
    COUNTER_ADJUSTMENT_DEBIT = "COUNTER_ADJUSTMENT_DEBIT"


class CommitmentFee(Value):
    """One part of the amount, and the bill date on which it is charged."""

    date: Day
    amount: Positive
    service_period_start_date: Instant
    service_period_end_date: Instant


class Commitment(Entity):
    """An amount that an account agreed to pay: start inclusive, end exclusive, days of the organization."""

    account_id: Id
    start_date: Day
    end_date: Day
    currency: CurrencyCode
    amount: Positive
    billing_plan_id: Id | None = None
    product_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    amount_pre_paid: NonNegative | None = None
    amount_first_bill: NonNegative | None = None
    overage_surcharge_percent: Number | None = None
    separate_overage_usage: Flag | None = None
    billing_interval: Annotated[Integer, Field(ge=1, le=365)] | None = None
    billing_offset: Annotated[Integer, Field(ge=0, le=364)] | None = None
    commitment_fee_description: Description | None = None
    commitment_usage_description: Description | None = None
    overage_description: Description | None = None
    commitment_fee_bill_in_advance: Flag | None = None
    bill_epoch: Day | None = None
    contract_id: Id | None = None
    accounting_product_id: Id | None = None
    fees_accounting_product_id: Id | None = None
    drawdowns_accounting_product_id: Id | None = None
    fee_dates: tuple[CommitmentFee, ...] = ()
    child_billing_mode: ChildBillingMode | None = None
    line_item_types: tuple[CommitmentLineItemType, ...] = ()
