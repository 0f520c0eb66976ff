"""Rules of balances, their schedules, commitments and charges, and what is computed of them."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from meterlake.model.calendar.recurrence import (
    instants_after,
    periods,
)
from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig, TransactionType
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransactionSchedule,
)
from meterlake.model.customers.charges import Charge, ChargeEntityType, ChargeLineItemType
from meterlake.model.customers.contracts import Commitment
from meterlake.model.customers.recurring_period import RECURRING
from meterlake.model.customers.schedules import bill_dates, billed_at
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.references import existing
from meterlake.model.rules.spans import wire_text
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Period, local_date, zone

# Within these years every day of a schedule is a date in every time zone.
_FIRST_YEAR: Final = 2
_LAST_YEAR: Final = 9998
_MOMENT: Final = timedelta(microseconds=1)
_LINE_TYPES = {
    ChargeEntityType.AD_HOC: ChargeLineItemType.AD_HOC,
    ChargeEntityType.BALANCE: ChargeLineItemType.BALANCE_FEE,
}


def rollover_has_an_end(new: Proposed[Balance]) -> None:
    """A balance that is carried over is so until a time after its end."""
    balance = new.entity
    if balance.rollover_end_date is None:
        if balance.rollover_amount is not None:
            rule = "nothing rolls over without a rolloverEndDate; give that, too, or leave it out"
            raise Invalid("rolloverAmount", balance.rollover_amount, rule)
    elif balance.rollover_end_date <= balance.end_date:
        rule = f"it must be after endDate {wire_text(balance.end_date)}"
        raise Invalid("rolloverEndDate", wire_text(balance.rollover_end_date), rule)


def transaction_type_is_in_use(new: Proposed[BalanceTransactionSchedule]) -> None:
    """A transaction type is not archived when it is picked; it may be so later."""
    type_id = new.entity.transaction_type_id
    if new.before is None or new.before.transaction_type_id != type_id:
        pick_transaction_type(type_id, new.configuration)


def pick_transaction_type(id: str, configuration: Configuration) -> None:
    """Refuse a transaction type that does not exist or is archived.

    Raises:
        Invalid: It is.
    """
    if existing(TransactionType, "transactionTypeId", id, configuration).entity.archived:
        raise Invalid("transactionTypeId", id, "it must be a transaction type that is not archived")


def service_period_lasts(new: Proposed[BalanceChargeSchedule]) -> None:
    """A schedule of charges ends after it starts, in years that all time zones share."""
    schedule = new.entity
    start, end = schedule.service_period_start_date, schedule.service_period_end_date
    _lasts(("servicePeriodStartDate", start), ("servicePeriodEndDate", end))


def schedule_lasts(new: Proposed[BalanceTransactionSchedule]) -> None:
    """A schedule of transactions ends after it starts, in years that all time zones share."""
    _lasts(("startDate", new.entity.start_date), ("endDate", new.entity.end_date))


def _lasts(start: tuple[str, datetime], end: tuple[str, datetime]) -> None:
    for name, instant in (start, end):
        if not _FIRST_YEAR <= instant.year <= _LAST_YEAR:
            rule = f"it must be a year from {_FIRST_YEAR} to {_LAST_YEAR}"
            raise Invalid(name, wire_text(instant), rule)
    if end[1] <= start[1]:
        raise Invalid(
            end[0], wire_text(end[1]), f"it must be after {start[0]} {wire_text(start[1])}"
        )


def charge_schedule_runs(
    record: Record[BalanceChargeSchedule], configuration: Configuration
) -> dict[str, Any]:
    """When a schedule ran last and runs next: when its charges are due."""
    schedule = record.entity
    config = configuration.single(OrganizationConfig).entity
    known = configuration.previous_run(record.id)
    runs = {} if known is None else {"previousRun": known}
    for _, part in charged_parts(schedule, config, configuration.charged_until(record.id)):
        return {**runs, "nextRun": billed_at(schedule, part, zone(config.timezone))}
    return runs


def charged_parts(
    schedule: BalanceChargeSchedule, config: OrganizationConfig, until: datetime | None = None
) -> Iterator[tuple[int, Period]]:
    """The parts of a schedule's service that have a charge each, with their numbers from 0.

    Args:
        schedule: What is cut at its bill dates.
        config: Where days begin, and from when bill dates are counted.
        until: Only parts that begin then or later: what is before was charged.
    """
    whole = Period(schedule.service_period_start_date, schedule.service_period_end_date)
    dates, tz = bill_dates(schedule, config), zone(config.timezone)
    skip = 0
    if until is not None and until > whole.start:
        first = dates.number_after(local_date(whole.start, tz))
        skip = dates.number_after(local_date(until - _MOMENT, tz)) - first + 1
    for number, part in enumerate(periods(whole, dates, tz, skip), start=skip):
        if until is None or part.start >= until:
            yield number, part


def transaction_schedule_runs(
    record: Record[BalanceTransactionSchedule], configuration: Configuration
) -> dict[str, Any]:
    """When a schedule ran last and runs next: when its transactions are due."""
    schedule, tz = record.entity, zone(configuration.single(OrganizationConfig).entity.timezone)
    whole = Period(schedule.start_date, schedule.end_date)
    known = configuration.previous_run(record.id)
    runs = {} if known is None else {"previousRun": known}
    for due in instants_after(known, whole, schedule.frequency, schedule.frequency_interval, tz):
        return {**runs, "nextRun": due}
    return runs


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
