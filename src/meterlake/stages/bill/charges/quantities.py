"""Quantities as the usage lines of a bill look them up."""

from meterlake.model.bills.bill import Quantity
from meterlake.model.values.money import LAKE_INTEGER_DIGITS
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import BilledQuantityKey, BillInputs
from meterlake.stages.bill.pricing.currencies import CannotBill
from meterlake.stages.bill.terms.terms import PricedUsage


def find_measured(
    charge: PricedUsage, inputs: BillInputs, usage_id: str, period: Period
) -> Quantity | None:
    """What was used of what a charge prices; None if nothing was.

    Args:
        charge: Says of what.
        inputs: The quantities of the run.
        usage_id: Whose usage: that of an account, or of a pool.
        period: When.

    Raises:
        CannotBill: The quantity is not known, or has more digits than can be billed.
    """
    applicable_pricing = charge.applicable_pricing
    aggregation, segment = applicable_pricing.aggregation, applicable_pricing.segment
    selection = charge.plan_period.usage.selection
    key = BilledQuantityKey(usage_id, aggregation.id, period, segment, selection)
    reason = inputs.left_out.get(aggregation.id) or inputs.missing.get(key)
    if reason is not None:
        raise CannotBill(f"{reason}; correct the aggregation, or the usage that it is made of")
    quantity = inputs.quantities.get(key)
    if quantity is not None and quantity.overflows:
        name = aggregation.entity.code or aggregation.entity.name
        raise CannotBill(
            f"{name!r} adds up to more than {LAKE_INTEGER_DIGITS} integer digits;"
            " correct its measurements"
        )
    return quantity


def has_usage(charge: PricedUsage, inputs: BillInputs, usage_id: str, period: Period) -> bool:
    """Whether anything was used of what a charge prices, whatever default values come to.

    Args:
        charge: Says of what.
        inputs: The quantities of the run.
        usage_id: Whose usage: that of an account, or of a pool.
        period: When.
    """
    selection = charge.plan_period.usage.selection
    return any(
        BilledQuantityKey(usage_id, part_id, period, segment, selection) in inputs.quantities
        for _, part_id, segment in charge.applicable_pricing.charged_usage
    )
