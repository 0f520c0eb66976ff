"""The dates of billing: when it is due, when bills approve themselves, and from when they are closed."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from meterlake.model.configuration.organization import (
    ONCE_A_DAY,
    OrganizationConfig,
    TimePeriodUnit,
)
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import local_date, midnight, zone

_ONE_DAY: Final = timedelta(days=1)
_UNITS: Final = {
    TimePeriodUnit.MINUTES: timedelta(minutes=1),
    TimePeriodUnit.HOURS: timedelta(hours=1),
    TimePeriodUnit.DAYS: _ONE_DAY,
}


def last_due(config: OrganizationConfig, now: datetime) -> datetime | None:
    """The newest instant, not later than now, at which bills are due; None without a schedule.

    The interval counts from midnight on every day, by the clock on the wall: an hour that comes
    twice has its instants twice.
    """
    if config.scheduled_bill_interval == ZERO:
        return None
    today = local_date(now, zone(config.timezone))
    found = (due for day in (today - _ONE_DAY, today) for due in _due_on(config, day) if due <= now)
    return max(found)


def _due_on(config: OrganizationConfig, day: date) -> Iterator[datetime]:
    tz = zone(config.timezone)
    if config.scheduled_bill_interval == ONCE_A_DAY:
        hour = config.scheduled_bill_offset or 0
        yield datetime.combine(day, time(hour), tz).astimezone(UTC)
        return
    step = timedelta(minutes=int(config.scheduled_bill_interval * 60))
    for number in range(_ONE_DAY // step):
        on_the_wall = datetime.combine(day, time()) + number * step
        for fold in (0, 1):
            yield on_the_wall.replace(tzinfo=tz, fold=fold).astimezone(UTC)


def grace_period(config: OrganizationConfig) -> timedelta | None:
    """How long after its bill date a bill approves itself; None if none does."""
    count, unit = (
        config.auto_approve_bills_grace_period,
        config.auto_approve_bills_grace_period_unit,
    )
    return None if count is None or unit is None else count * _UNITS[unit]


def approves_itself(config: OrganizationConfig, bill_date: date, now: datetime) -> bool:
    """Whether the grace period of a bill of some date is over."""
    grace = grace_period(config)
    return grace is not None and midnight(bill_date, zone(config.timezone)) + grace <= now


def day_after(lock_date: date) -> date:
    """The exclusive end of the time that a lock date closes; its own day is the last one."""
    return lock_date if lock_date == date.max else lock_date + timedelta(days=1)


def is_closed(bill_date: date, closed_until: date | None, *, locked: bool = False) -> bool:
    """Whether a bill never changes: somebody locked it, or it ends in closed time.

    >>> is_closed(date(2026, 11, 1), day_after(date(2026, 10, 31)))
    True

    Args:
        bill_date: The exclusive end of what it bills.
        closed_until: The exclusive end of closed time; None without a lock date.
        locked: Whether somebody locked this very bill.
    """
    return locked or (closed_until is not None and bill_date <= closed_until)
