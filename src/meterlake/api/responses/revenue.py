"""Answers about revenue."""

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Id, Integer, Number, Text
from meterlake.pipeline.billing.revenue import RevenueGroup


class RevenueRowResponse(Value):
    """The revenue in one currency, in the groups that were asked for.

    `amount` is `billedAmount`, what bills come to, and `drawnAmount`, what balances and commitments
    pay of them, without `chargedAheadAmount`, what bills charge for these. `count` counts bills, or
    lines where products are told apart. The amounts in the reporting currency add up in the same way:
    `reportingBilledAmount` follows from the three others, which are rounded each for itself. They are
    absent without a rate.
    """

    month: Text | None = None
    account_id: Id | None = None
    account_code: Text | None = None
    account_name: Text | None = None
    product_id: Id | None = None
    product_code: Text | None = None
    product_name: Text | None = None
    currency: Text
    amount: Number
    approved_amount: Number
    draft_amount: Number
    billed_amount: Number
    drawn_amount: Number
    charged_ahead_amount: Number
    count: Integer
    reporting_amount: Number | None = None
    reporting_billed_amount: Number | None = None
    reporting_drawn_amount: Number | None = None
    reporting_charged_ahead_amount: Number | None = None


class OtherCostResponse(Value):
    """A cost in a unit that is not the currency of the revenue."""

    unit: Text
    cost: Number


class MarginTotalResponse(Value):
    """Revenue in a currency, the costs of the same customers, and what is left.

    `margin` is absent if some of the costs are `otherCosts`, in another unit. `customers` have costs.
    """

    currency: Text
    revenue: Number
    cost: Number
    margin: Number | None = None
    other_costs: tuple[OtherCostResponse, ...]
    customers: Integer


class MarginRowResponse(MarginTotalResponse):
    """The margin of a product or of a customer; without a product it is that of all without one."""

    product_id: Id | None = None
    product_code: Text | None = None
    product_name: Text | None = None
    account_id: Id | None = None
    account_code: Text | None = None
    account_name: Text | None = None


class CostMeasureResponse(Value):
    """A measure of category COST, and whether anything of it came in the month."""

    name: Text
    unit: Text
    is_measured: bool


class UnbilledCostResponse(Value):
    """The cost of a customer who has no bill to set it against."""

    account_id: Id
    account_code: Text | None = None
    account_name: Text | None = None
    cost: Number
    unit: Text


class MarginsResponse(Value):
    """The margins of a month; the largest revenue of each currency first. The rows come to `totals`.

    `unbilled` are the hundred largest costs without a bill.
    """

    month: Text
    group: RevenueGroup
    measures: tuple[CostMeasureResponse, ...]
    reporting_currency: Text | None = None
    data: tuple[MarginRowResponse, ...]
    totals: tuple[MarginTotalResponse, ...]
    unbilled: tuple[UnbilledCostResponse, ...]
    unbilled_count: Integer
    next_token: Text | None = None


class RevenueResponse(Value):
    """The revenue of some months; the newest month first, the largest amounts first.

    `rates` are those of the organization's currency conversions of now, by which all months are
    converted: how many units of the reporting currency one of each currency is.
    """

    start_month: Text
    end_month: Text
    groups: tuple[RevenueGroup, ...]
    reporting_currency: Text | None = None
    missing_rates: tuple[Text, ...] | None = None
    rates: dict[str, Number] | None = None
    data: tuple[RevenueRowResponse, ...]
    next_token: Text | None = None
