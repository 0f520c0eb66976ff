"""Rules of commitments, and what is computed of them."""

from typing import Any

from meterlake.model.catalog.pricing import Plan, PlanTemplate
from meterlake.model.customers.commitments import Commitment
from meterlake.model.customers.recurring_period import RECURRING
from meterlake.model.errors import Invalid
from meterlake.model.rules.charges import service_period
from meterlake.model.rules.proposed import Proposed
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.money import ZERO, exact


def commitment_spent(record: Record[Commitment], configuration: Configuration) -> dict[str, Any]:
    """How much of a commitment is consumed."""
    return {"amountSpent": configuration.amount_spent(record.id)}


def one_way_of_billing_fees(new: Proposed[Commitment]) -> None:
    """Fees are billed with the bills of a plan, or on dates of their own."""
    commitment = new.entity
    plan_id = commitment.billing_plan_id
    if commitment.fee_dates and plan_id is not None:
        raise Invalid(
            "billingPlanId",
            plan_id,
            "fees are billed with a plan or on feeDates, not both; leave one of them out",
        )
    rhythm = {
        "billingInterval": commitment.billing_interval,
        "billingOffset": commitment.billing_offset,
    }
    for name, value in rhythm.items():
        if value is not None and plan_id is None:
            raise Invalid(
                name,
                value,
                "it counts the bills of a billingPlanId; give that, too, or leave it out",
            )


def billing_plan_has_periods(new: Proposed[Commitment]) -> None:
    """Fees that are billed with a plan need bills of it: one without billing periods has none."""
    plan_id = new.entity.billing_plan_id
    if plan_id is None:
        return
    plan = new.configuration.get(Plan, plan_id).entity
    frequency = new.configuration.get(PlanTemplate, plan.plan_template_id).entity.bill_frequency
    if frequency not in RECURRING:
        rule = (
            f"it is billed {frequency.value}, which has no billing periods; choose another plan, or"
            " give feeDates"
        )
        raise Invalid("billingPlanId", plan.code, rule)


def fee_periods_are_in_order(new: Proposed[Commitment]) -> None:
    """The service period of a fee does not end before it starts."""
    for index, fee in enumerate(new.entity.fee_dates):
        service_period(fee, f"feeDates[{index}].")


def separate_overage_without_surcharge(new: Proposed[Commitment]) -> None:
    """Overage has lines of its own, or a surcharge, but not both."""
    if new.entity.separate_overage_usage and new.entity.overage_surcharge_percent:
        rule = "overage has lines of its own or a surcharge, not both; send false, or no overageSurchargePercent"
        raise Invalid("separateOverageUsage", new.entity.separate_overage_usage, rule)


def advances_within_the_amount(new: Proposed[Commitment]) -> None:
    """What is paid before, and with the first bill, is not more than the whole."""
    commitment = new.entity
    paid, first = commitment.amount_pre_paid or ZERO, commitment.amount_first_bill or ZERO
    if paid > commitment.amount:
        raise Invalid("amountPrePaid", paid, f"it must be at most the amount, {commitment.amount}")
    with exact():
        left = commitment.amount - paid
    if first > left:
        raise Invalid(
            "amountFirstBill", first, f"it must be at most what is left of the amount, {left}"
        )
