"""What is charged by how many there are, not by how much is used: seats, licences."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.catalog.plans import Bands
from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import (
    Code,
    Day,
    Description,
    Flag,
    Id,
    Instant,
    Integer,
    Name,
    Text,
)


class Counter(Entity):
    """Something that an account has a number of; without a product it is global."""

    name: Name
    unit: Annotated[Text, Field(min_length=1, max_length=200)]
    code: Code | None = None
    product_id: Id | None = None


class CounterPricing(Entity):
    """The price of the number of a counter on a plan, or on all plans of a template."""

    start_date: Instant
    pricing_bands: Annotated[Bands, Field(min_length=1)]
    counter_id: Id
    code: Code | None = None
    plan_id: Id | None = None
    plan_template_id: Id | None = None
    cumulative: Flag = False
    end_date: Instant | None = None
    description: Description | None = None
    accounting_product_id: Id | None = None
    running_total_bill_in_advance: Flag = True
    pro_rate_running_total: Flag = True
    pro_rate_adjustment_debit: Flag = True
    pro_rate_adjustment_credit: Flag = True

    @property
    def hiding_key(self) -> tuple[Any, ...]:
        """What a plan's own price has in common with the one of its template that it hides."""
        return (self.counter_id,)


class CounterAdjustment(Entity):
    """The number that an account has of a counter from a day on: the number itself, not a difference."""

    counter_id: Id
    account_id: Id
    date: Day
    value: Annotated[Integer, Field(ge=0, lt=2**31)]
    purchase_order_number: Annotated[Text, Field(max_length=100)] | None = None
