"""Single charges: one line on one bill, for an account or for a balance of it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from meterlake.model.configuration.organization import CurrencyCode
from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Code, Day, Id, Instant, Name, Number, Text


class ChargeEntityType(StrEnum):
    """What a charge is for: the account, or a balance that it has."""

    AD_HOC = "AD_HOC"
    BALANCE = "BALANCE"


class ChargeLineItemType(StrEnum):
    """The type of the bill line that a charge becomes."""

    BALANCE_FEE = "BALANCE_FEE"
    AD_HOC = "AD_HOC"


class Charge(Entity):
    """A debit or, below zero, a credit: an amount, or units at a price."""

    name: Name
    code: Code
    account_id: Id
    currency: CurrencyCode
    entity_type: ChargeEntityType
    line_item_type: ChargeLineItemType
    service_period_start_date: Instant
    service_period_end_date: Instant
    bill_date: Day | None = None
    amount: Number | None = None
    units: Number | None = None
    unit_price: Number | None = None
    description: Text | None = None
    entity_id: Id | None = None
    accounting_product_id: Id | None = None
    notes: Annotated[
        Text | None, Field(description="For people who look after it; never on a bill.")
    ] = None
    contract_id: Id | None = None
