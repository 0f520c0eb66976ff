"""A schedule of a balance → the charges or the transactions that it makes, in their order."""

from collections.abc import Iterator
from datetime import date, datetime, tzinfo
from typing import Any

from meterlake.model.calendar.recurrence import Recurrence, ScheduleFrequency, instants, periods
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransaction,
    BalanceTransactionSchedule,
    EntityType,
)
from meterlake.model.customers.charges import Charge, ChargeEntityType, ChargeLineItemType
from meterlake.model.values.ids import CODE_MAX
from meterlake.model.values.period import Period, local_date, midnight, zone


def charges(
    schedule: BalanceChargeSchedule,
    balance: Balance,
    config: OrganizationConfig,
    skip: int = 0,
) -> Iterator[Charge]:
    """The charges of a schedule: one for every stretch between its bill dates.

    Every one is of the schedule's whole amount, a short first or last stretch too. Their codes
    are the schedule's with their number; in advance they are billed on the first day of their
    stretch, otherwise on the day after its last; none before the `billEpoch`.

    Args:
        schedule: What makes them.
        balance: What they are for.
        config: Where days begin, and from when bill dates are counted.
        skip: How many to pass over.
    """
    tz = zone(config.timezone)
    whole = Period(schedule.service_period_start_date, schedule.service_period_end_date)
    parts = periods(whole, bill_dates(schedule, config), tz, skip)
    for number, part in enumerate(parts, start=skip):
        yield charge_of_part(schedule, balance, part, tz, number)


def charge_of_part(
    schedule: BalanceChargeSchedule, balance: Balance, part: Period, tz: tzinfo, number: int
) -> Charge:
    """The charge for one part of a schedule's service.

    Args:
        schedule: What makes it.
        balance: What it is for.
        part: What it charges for.
        tz: Where days begin.
        number: Which part it is, from 0.
    """
    suffix = f"-{number + 1}"
    return Charge(
        name=schedule.name,
        code=schedule.code[: CODE_MAX - len(suffix)] + suffix,
        account_id=balance.account_id,
        currency=schedule.currency,
        entity_type=ChargeEntityType.BALANCE,
        line_item_type=ChargeLineItemType.BALANCE_FEE,
        service_period_start_date=part.start,
        service_period_end_date=part.end,
        bill_date=local_date(billed_at(schedule, part, tz), tz),
        amount=schedule.amount,
        units=schedule.units,
        unit_price=schedule.unit_price,
        description=schedule.charge_description,
        entity_id=schedule.balance_id,
        contract_id=balance.contract_id,
        accounting_product_id=balance.fees_accounting_product_id,
    )


def transactions(
    schedule: BalanceTransactionSchedule, config: OrganizationConfig, skip: int = 0
) -> Iterator[dict[str, Any]]:
    """The transactions of a schedule as the wire has them, at the same time of the day.

    Args:
        schedule: What makes them.
        config: Where days begin.
        skip: How many to pass over.
    """
    whole = Period(schedule.start_date, schedule.end_date)
    tz = zone(config.timezone)
    for at in instants(whole, schedule.frequency, schedule.frequency_interval, tz, skip):
        made = BalanceTransaction(
            amount=schedule.amount,
            description=schedule.transaction_description,
            paid=schedule.paid,
            currency_paid=schedule.currency_paid,
            transaction_type_id=schedule.transaction_type_id,
            applied_date=at,
            transaction_date=at,
        )
        yield {**made.to_wire(), "entityType": EntityType.SCHEDULER.value}


def bill_dates(schedule: BalanceChargeSchedule, config: OrganizationConfig) -> Recurrence:
    """The days on which a schedule's charges are billed: from its own epoch, or the organization's."""
    epochs: dict[ScheduleFrequency, date] = {
        ScheduleFrequency.DAILY: config.day_epoch,
        ScheduleFrequency.WEEKLY: config.week_epoch,
        ScheduleFrequency.MONTHLY: config.month_epoch,
        ScheduleFrequency.ANNUALLY: config.year_epoch,
    }
    epoch = schedule.bill_epoch or epochs[schedule.bill_frequency]
    return Recurrence(schedule.bill_frequency, schedule.bill_frequency_interval, epoch)


def billed_at(schedule: BalanceChargeSchedule, part: Period, tz: tzinfo) -> datetime:
    """When the charge of a part is billed: at its start or end, and not before the `billEpoch`.

    A `billEpoch` is the first bill date, too.
    """
    due = part.start if schedule.bill_in_advance else part.end
    first = schedule.bill_epoch
    return due if first is None or first <= local_date(due, tz) else midnight(first, tz)
