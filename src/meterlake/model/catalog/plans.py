"""Plans: their templates, their groups, the prices of aggregations on them, and how prices change."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

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
    Ordinal,
    Positive,
    Text,
)

_Name = Annotated[Text, Field(min_length=1, max_length=200)]


class BillingFrequency(StrEnum):
    """How often a plan is billed."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    ANNUALLY = "ANNUALLY"
    AD_HOC = "AD_HOC"
    MIXED = "MIXED"

    @property
    def most_days(self) -> int:
        """How many days its longest period has; a month's where periods have no length of their own.

        >>> BillingFrequency.ANNUALLY.most_days
        366
        """
        return _MOST_DAYS.get(self, _MOST_DAYS[BillingFrequency.MONTHLY])


_MOST_DAYS: Final = {
    BillingFrequency.DAILY: 1,
    BillingFrequency.WEEKLY: 7,
    BillingFrequency.MONTHLY: 31,
    BillingFrequency.ANNUALLY: 366,
}


class PricingType(StrEnum):
    """Whether a pricing adds to the bill or takes away from it."""

    DEBIT = "DEBIT"
    PRODUCT_CREDIT = "PRODUCT_CREDIT"
    GLOBAL_CREDIT = "GLOBAL_CREDIT"


class PlanTemplate(Entity):
    """The common settings of plans of a product: currency, frequency, standing charge."""

    product_id: Id
    name: Name
    currency: Annotated[Text, Field(min_length=3, max_length=3)]
    standing_charge: NonNegative
    bill_frequency: BillingFrequency
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    standing_charge_description: Description | None = None
    standing_charge_interval: Annotated[Integer, Field(ge=1, le=365)] = 1
    standing_charge_offset: Annotated[Integer, Field(ge=0, le=364)] = 0
    bill_frequency_interval: Annotated[Integer, Field(ge=1, le=365)] = 1
    ordinal: Ordinal | None = None
    code: Code | None = None
    minimum_spend: NonNegative | None = None
    minimum_spend_description: Description | None = None
    standing_charge_bill_in_advance: Flag | None = None
    minimum_spend_bill_in_advance: Flag | None = None


class Plan(Entity):
    """A plan that a customer subscribes to; its template fills in the members that it lacks."""

    plan_template_id: Id
    name: Name
    code: Code
    custom_fields: CustomFieldMap = Field(default_factory=dict)
    standing_charge: NonNegative | None = None
    standing_charge_description: Description | None = None
    ordinal: Ordinal | None = None
    bespoke: Flag | None = None
    minimum_spend: NonNegative | None = None
    minimum_spend_description: Description | None = None
    standing_charge_bill_in_advance: Flag | None = None
    minimum_spend_bill_in_advance: Flag | None = None
    minimum_spend_accounting_product_id: Id | None = None
    standing_charge_accounting_product_id: Id | None = None
    account_id: Id | None = None


class PricingBand(Value):
    """A slice of a price: from its lower limit, exclusive, to the next band's, inclusive."""

    lower_limit: NonNegative
    fixed_price: Number
    unit_price: Number
    id: Annotated[Text, Field(max_length=80)] | None = None
    credit_type_id: Annotated[Text, Field(max_length=80)] | None = None


Bands = Annotated[tuple[PricingBand, ...], Field(max_length=1000)]


class Pricing(Entity):
    """The price of the units of one aggregation on a plan, or on all plans of a template."""

    start_date: Instant
    pricing_bands: Annotated[Bands, Field(min_length=1)]
    code: Code | None = None
    plan_id: Id | None = None
    plan_template_id: Id | None = None
    cumulative: Flag = False
    end_date: Instant | None = None
    description: Description | None = None
    accounting_product_id: Id | None = None
    aggregation_id: Id | None = None
    compound_aggregation_id: Id | None = None
    type: PricingType = PricingType.DEBIT
    segment: dict[Text, Text] = Field(default_factory=dict)
    tiers_span_plan: Flag = False
    minimum_spend: NonNegative | None = None
    minimum_spend_description: Description | None = None
    minimum_spend_bill_in_advance: Flag | None = None
    overage_pricing_bands: Bands = ()

    @property
    def hiding_key(self) -> tuple[Any, ...]:
        """What a plan's own price has in common with the one of its template that it hides."""
        priced_id = self.aggregation_id or self.compound_aggregation_id
        return priced_id, tuple(sorted(self.segment.items())), self.type


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


_NewBands = Annotated[tuple[PricingBand, ...], Field(min_length=1, max_length=1000)]
_Month = Annotated[Text, Field(min_length=7, max_length=7)]


class PriceChange(Value):
    """The bands that hold from an instant on, instead of those of a price."""

    start_date: Instant
    pricing_bands: _NewBands


class PriceChangePreview(Value):
    """What is asked of new bands: what they would do to bills of months."""

    pricing_bands: _NewBands
    account_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    first_month: _Month
    last_month: _Month


class PriceFactor(Value):
    """A factor, or a new unit price, for the prices of a plan, of an aggregation, or of one on the other.

    `aggregation` is the code of what is priced: an aggregation, a compound one, or a counter. A unit
    price is that of the band that begins above `lowerLimit`; a price of one band needs no limit.
    """

    by: Positive | None = None
    unit_price: NonNegative | None = None
    lower_limit: NonNegative | None = None
    plan: _Name | None = None
    aggregation: _Name | None = None


class PriceScale(Value):
    """How prices change: those of some plans, by a factor or by a table, from a day on.

    The row of the table that says most of a price decides, and `by` where none fits. With
    `own_prices` plans that take prices from their templates get prices of their own instead.
    """

    plans: Annotated[tuple[_Name, ...], Field(min_length=1, max_length=1000)]
    start: Annotated[Day, Field(alias="from")]
    by: Positive | None = None
    factors: Annotated[tuple[PriceFactor, ...], Field(max_length=10_000)] = ()
    decimals: Annotated[Integer, Field(ge=0, le=20)] | None = None
    own_prices: Flag = False
