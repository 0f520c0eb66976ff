"""Answers about revenue."""

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Id, Integer, Number, Text
from meterlake.pipeline.billing.revenue import RevenueGroup


class RevenueRowResponse(Value):
    """The revenue in one currency, in the groups that were asked for.

    `amount` is `billedAmount`, what bills come to, and `drawnAmount`, what balances and commitments
    pay of them, without `chargedAheadAmount`, what bills charge for these. `count` counts bills, or lines where products are told apart. `reportingAmount` is rounded for
    itself, and absent without a rate.
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


class RevenueResponse(Value):
    """The revenue of some months; the newest month first, the largest amounts first."""

    start_month: Text
    end_month: Text
    groups: tuple[RevenueGroup, ...]
    reporting_currency: Text | None = None
    missing_rates: tuple[Text, ...] | None = None
    data: tuple[RevenueRowResponse, ...]
    next_token: Text | None = None
