"""Rules of balances and of their schedules, and what is computed of schedules."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from meterlake.model.calendar.recurrence import (
    instants_after,
    periods,
)
from meterlake.model.configuration.organization import OrganizationConfig, TransactionType
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransactionSchedule,
)
from meterlake.model.customers.schedules import bill_dates, billed_at
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.references import existing
from meterlake.model.rules.spans import wire_text
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period, local_date, zone

# Within these years every day of a schedule is a date in every time zone.
_FIRST_YEAR: Final = 2
_LAST_YEAR: Final = 9998
_MOMENT: Final = timedelta(microseconds=1)


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
