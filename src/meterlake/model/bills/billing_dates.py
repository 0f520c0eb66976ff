"""The dates of billing: billing periods of plans, when bills are due, approve themselves and are closed.

A plan has regular periods, and perhaps a long first one until its first bill date.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final, Self

from meterlake.model.calendar.recurrence import Recurrence
from meterlake.model.configuration.organization import (
    ONCE_A_DAY,
    OrganizationConfig,
    TimePeriodUnit,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.recurring_period import NamedPeriod, containing
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import local_date, midnight, zone

# A first bill date after it is as good as none: close to the end of the calendar are no periods.
LAST_FIRST_BILL: Final = date(8999, 12, 31)
# Periods do not reach into earlier centuries.
_EARLIEST: Final = datetime(1001, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BillingCycle:
    """The billing periods of a plan, counted from an epoch.

    Attributes:
        recurrence: How often a regular period comes, and the epoch that it is counted from.
        begin: The first day of a plan that begins before its first bill date, which is the epoch
            then: from this day to the epoch is one period. None if all periods are regular.
    """

    recurrence: Recurrence
    begin: date | None = None

    @classmethod
    def from_first_bill(cls, recurrence: Recurrence, start: datetime, tz: tzinfo) -> Self:
        """The cycle of a plan with a `billEpoch`, which is the first bill date, too.

        Args:
            recurrence: Counted from the `billEpoch`.
            start: When the plan begins.
            tz: The time zone of its days.
        """
        begin = local_date(max(start, _EARLIEST), tz)
        return cls(recurrence, begin if begin < recurrence.anchor else None)

    def containing(self, day: date) -> NamedPeriod:
        """The billing period that contains a day.

        Before a plan that has a long first period, periods are regular, and end where it begins.

        Raises:
            Invalid: The day is too close to an end of the calendar.
        """
        found = containing(self.recurrence, day)
        if self.begin is None or day >= self.recurrence.anchor:
            return found
        if day >= self.begin:
            first_bill = min(self.recurrence.anchor, LAST_FIRST_BILL)
            return NamedPeriod(found.frequency, self.begin, first_bill)
        return NamedPeriod(found.frequency, found.first, min(found.after, self.begin))

    def regular(self, period: NamedPeriod) -> Iterator[NamedPeriod]:
        """The whole regular periods that a billing period touches, in order.

        It is one but for a long first period, whose first one may begin before it.
        """
        found = containing(self.recurrence, period.first)
        yield found
        while found.after < period.after:
            found = containing(self.recurrence, found.after)
            yield found


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


def due_date_of_bill(bill_date: date, account: Account, config: OrganizationConfig) -> date:
    """The last day to pay a bill: so many days after its bill date as the account or else all have."""
    days = account.days_before_bill_due or config.days_before_bill_due
    return bill_date + timedelta(days=days)


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
