"""Balances: money that an account has paid ahead, what comes into it, and what is planned to."""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.calendar.recurrence import ScheduleFrequency
from meterlake.model.configuration.organization import CurrencyCode
from meterlake.model.values.entity import Entity
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
    Text,
)
from meterlake.model.values.money import ZERO

_SomeText = Annotated[Text, Field(min_length=1)]
_Interval = Annotated[Integer, Field(ge=1, le=365)]


class BalanceLineItemType(StrEnum):
    """A type of bill line that may draw a balance down."""

    STANDING_CHARGE = "STANDING_CHARGE"
    USAGE = "USAGE"
    MINIMUM_SPEND = "MINIMUM_SPEND"
    COUNTER_RUNNING_TOTAL_CHARGE = "COUNTER_RUNNING_TOTAL_CHARGE"
    COUNTER_ADJUSTMENT_DEBIT = "COUNTER_ADJUSTMENT_DEBIT"
    AD_HOC = "AD_HOC"


class EntityType(StrEnum):
    """Who or what caused a transaction of a balance."""

    BILL = "BILL"
    COMMITMENT = "COMMITMENT"
    USER = "USER"
    SERVICE_USER = "SERVICE_USER"
    SCHEDULER = "SCHEDULER"


class Balance(Entity):
    """Prepaid credit of an account: start inclusive, end exclusive."""

    code: Code
    name: _SomeText
    account_id: Id
    start_date: Instant
    end_date: Instant
    currency: CurrencyCode
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    description: Text | None = None
    rollover_amount: NonNegative | None = None
    rollover_end_date: Instant | None = None
    balance_draw_down_description: Description | None = None
    overage_surcharge_percent: Number | None = None
    overage_description: Description | None = None
    product_ids: tuple[Id, ...] = ()
    line_item_types: tuple[BalanceLineItemType, ...] = ()
    contract_id: Id | None = None
    consumptions_accounting_product_id: Id | None = None
    fees_accounting_product_id: Id | None = None
    allow_overdraft: Flag | None = None


def rollover_of(balance: Balance, left: Decimal) -> Decimal:
    """What is carried over of an amount that is left at the end of a balance.

    Args:
        balance: The balance.
        left: Never below 0.
    """
    if balance.rollover_end_date is None:
        return ZERO
    return left if balance.rollover_amount is None else min(left, balance.rollover_amount)


class BalanceTransaction(Entity):
    """Money that comes into a balance or, below zero, leaves it."""

    amount: Number
    description: Text | None = None
    paid: Number | None = None
    currency_paid: CurrencyCode | None = None
    transaction_type_id: Id | None = None
    applied_date: Instant | None = None
    transaction_date: Instant | None = None


class BalanceChargeSchedule(Entity):
    """Makes a charge for a balance again and again: an amount, or units at a price."""

    balance_id: Id
    name: Name
    code: Code
    currency: CurrencyCode
    service_period_start_date: Instant
    service_period_end_date: Instant
    bill_frequency: ScheduleFrequency
    bill_frequency_interval: _Interval
    bill_in_advance: Flag
    charge_description: _SomeText
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    amount: NonNegative | None = None
    units: Number | None = None
    unit_price: Number | None = None
    bill_epoch: Day | None = None


class BalanceTransactionSchedule(Entity):
    """Makes a transaction of a balance again and again: start inclusive, end exclusive."""

    balance_id: Id
    name: Name
    code: Code
    amount: NonNegative
    transaction_description: _SomeText
    transaction_type_id: Id
    start_date: Instant
    end_date: Instant
    frequency: ScheduleFrequency
    frequency_interval: _Interval
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    paid: Number | None = None
    currency_paid: CurrencyCode | None = None
