"""Bodies and answers about prices of many plans that change at once."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.catalog.plans import PriceScale
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Number, Text


class PriceScaleProposeRequest(PriceScale):
    """How prices change, and the month whose bills are compared."""

    effect_month: Text | None = None

    @property
    def scale(self) -> PriceScale:
        """How prices change."""
        return PriceScale.model_validate(self.model_dump(exclude={"effect_month"}))


class PriceScaleApplyRequest(PriceScale):
    """How prices change, and which proposal was looked at."""

    review: Annotated[Text, Field(min_length=1)]

    @property
    def scale(self) -> PriceScale:
        """How prices change."""
        return PriceScale.model_validate(self.model_dump(exclude={"review"}))


class OldAndNewPrice(Value):
    """A price before and after."""

    old: Number
    new: Number


class ScaledBandResponse(Value):
    """A band with its old and new prices."""

    lower_limit: Number
    fixed_price: OldAndNewPrice
    unit_price: OldAndNewPrice


class ScaledPriceResponse(Value):
    """A price that changes, with what it is of and its bands."""

    kind: Text
    id: Id
    version: Integer
    plan: Text
    priced: Text
    name: Text
    segment: dict[str, Text] | None = None
    currency: Text
    by: Number | None = None
    template: Text | None = None
    start_date: Instant
    bands: tuple[ScaledBandResponse, ...]
    overage_bands: tuple[ScaledBandResponse, ...]


class UnchangedPriceResponse(Value):
    """A price of the plans that stays as it is, and why."""

    kind: Text
    id: Id
    plan: Text
    priced: Text
    reason: Text


class SharingPlanResponse(Value):
    """A plan that takes prices from a template, and how many customers have it on the day."""

    code: Text
    name: Text
    customers: Integer
    chosen: Flag


class SharedTemplateResponse(Value):
    """A template of chosen plans, or a chosen one, with all plans that take their prices from it."""

    code: Text
    name: Text
    chosen: Flag
    plans: tuple[SharingPlanResponse, ...]


class KeptChargeResponse(Value):
    """A charge of a plan that stays as it is: it has no day from which it holds."""

    plan: Text
    charge: Text
    amount: Number
    currency: Text


class PriceScaleResponse(Value):
    """The prices that change and those that stay; the effect on the bills of a month if asked for."""

    start: Annotated[Instant, Field(alias="from")]
    rounding: Text
    review: Text
    changed: tuple[ScaledPriceResponse, ...]
    unchanged: tuple[UnchangedPriceResponse, ...]
    templates: tuple[SharedTemplateResponse, ...]
    charges: tuple[KeptChargeResponse, ...]
    must_propose: Flag | None = None
    effect: dict[str, Any] | None = None


class MonthChange(Value):
    """What the bills of a month come to before and after, in one currency."""

    month: Text
    currency: Text
    before: Number
    after: Number
    difference: Number


class CustomerMonthChange(MonthChange):
    """What the bills of a customer in a month come to before and after."""

    account: Text


class PriceChangePreviewResponse(Value):
    """What a change of prices would do to bills; nothing is stored."""

    months: dict[str, Any]
    snapshot: Integer
    changed_entities: Integer
    added_accounts: tuple[Text, ...]
    accounts: Integer
    rows: Integer
    rows_changed: Integer
    totals: dict[str, Any]
    not_priced: tuple[dict[str, Any], ...]
    left_out: Integer
    unpriced_usage: dict[str, Any]
    earlier_bills: Integer
    stored_bills: dict[str, Any]
    by_month: tuple[MonthChange, ...]
    customers_changed: Integer
    by_customer: tuple[CustomerMonthChange, ...]
    must_propose: Flag | None = None
    changes: tuple[dict[str, Any], ...]


class PricingReplaceResponse(Value):
    """The price that ends, and the one that follows; without the first if that got the bands itself."""

    original_pricing: dict[str, Any] | None = None
    new_pricing: dict[str, Any]
