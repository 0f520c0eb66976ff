"""Commitments, also called prepayments: an amount that is payable however much is used."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.configuration.organization import CurrencyCode
from meterlake.model.customers.accounts import ChildBillingMode
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import (
    Day,
    Description,
    Flag,
    Id,
    Instant,
    Integer,
    NonNegative,
    Number,
    Positive,
)


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
