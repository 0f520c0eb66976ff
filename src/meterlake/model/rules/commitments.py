"""Rules of commitments and of charges, and what is computed of them."""

from typing import Any

from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge, ChargeEntityType, ChargeLineItemType
from meterlake.model.customers.contracts import Commitment
from meterlake.model.customers.recurring_period import RECURRING
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.spans import wire_text
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.money import ZERO, exact

_LINE_TYPES = {
    ChargeEntityType.AD_HOC: ChargeLineItemType.AD_HOC,
    ChargeEntityType.BALANCE: ChargeLineItemType.BALANCE_FEE,
}


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


def charge_origin(record: Record[Charge], configuration: Configuration) -> dict[str, Any]:
    """The schedule that made a charge and the bill on which it stands, if there are such."""
    found = {
        "billId": configuration.bill_of_charge(record.entity.account_id, record.id),
        "scheduleId": configuration.schedule_of_charge(record.id),
    }
    return {name: value for name, value in found.items() if value is not None}


def amount_or_units(new: Proposed[Any]) -> None:
    """A charge is an amount, or units at a price."""
    amount, units, price = new.entity.amount, new.entity.units, new.entity.unit_price
    if amount is not None and (units is not None or price is not None):
        raise Invalid(
            "amount", amount, "units and unitPrice give the amount; leave it out, or leave them out"
        )
    if amount is None and (units is None or price is None):
        missing = "units" if units is None else "unitPrice"
        raise Invalid(missing, None, "give an amount, or both units and unitPrice")


def service_period_is_in_order(new: Proposed[Any]) -> None:
    """A service period does not end before it starts."""
    service_period(new.entity, "")


def service_period(entity: Any, location: str) -> None:
    """Refuse a service period that ends before it starts; an empty one is allowed.

    Raises:
        Invalid: It does.
    """
    start, end = entity.service_period_start_date, entity.service_period_end_date
    if end < start:
        rule = f"it must be servicePeriodStartDate {wire_text(start)} or later"
        raise Invalid(f"{location}servicePeriodEndDate", wire_text(end), rule)


def charge_fits_its_entity(new: Proposed[Charge]) -> None:
    """A charge for a balance names it and becomes a BALANCE_FEE; any other becomes an AD_HOC line."""
    charge = new.entity
    expected = _LINE_TYPES[charge.entity_type]
    if charge.line_item_type is not expected:
        rule = f"a charge of entityType {charge.entity_type} must have {expected}"
        raise Invalid("lineItemType", charge.line_item_type.value, rule)
    if charge.entity_type is ChargeEntityType.AD_HOC:
        if charge.entity_id is not None:
            raise Invalid(
                "entityId",
                charge.entity_id,
                "a charge of entityType AD_HOC is for no entity; leave it out",
            )
        return
    balance_id, rule = new.entity.entity_id, "give the id of a balance of the account"
    if balance_id is None:
        raise Invalid("entityId", None, f"{rule} for entityType BALANCE")
    if new.configuration.get(Balance, balance_id).entity.account_id != new.entity.account_id:
        raise Invalid("entityId", balance_id, rule)
