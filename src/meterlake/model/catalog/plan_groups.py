"""Plans of several products that are sold together."""

from typing import Annotated

from pydantic import Field

from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import (
    Code,
    CustomFieldMap,
    Description,
    Flag,
    Id,
    Name,
    NonNegative,
    Text,
)


class PlanGroup(Entity):
    """A bundle of plans with charges of its own; with an account it is for that account only."""

    name: Name
    currency: Annotated[Text, Field(min_length=3, max_length=3)]
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    code: Code | None = None
    minimum_spend: NonNegative | None = None
    minimum_spend_description: Description | None = None
    standing_charge: NonNegative | None = None
    standing_charge_description: Description | None = None
    standing_charge_bill_in_advance: Flag | None = None
    minimum_spend_bill_in_advance: Flag | None = None
    account_id: Id | None = None
    minimum_spend_accounting_product_id: Id | None = None
    standing_charge_accounting_product_id: Id | None = None


class PlanGroupLink(Entity):
    """Puts a plan into a plan group."""

    plan_group_id: Id
    plan_id: Id
