"""Periods of usage: days, weeks, months and years counted from an epoch, and ad hoc stretches of days.

All are whole calendar days of the organization's time zone, half-open, and named by their first
day. Whatever the clocks do, a period begins where its first day does; the one before it ends there.
"""

import re
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from typing import Final

from meterlake.model.calendar.recurrence import Recurrence, ScheduleFrequency
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month, Period, midnight

RECURRING: Final = (
    BillingFrequency.DAILY,
    BillingFrequency.WEEKLY,
    BillingFrequency.MONTHLY,
    BillingFrequency.ANNUALLY,
)
# Periods of days close to the first and the last year would reach outside of the calendar.
_FIRST_YEAR: Final = 1000
_LAST_YEAR: Final = 8999
_ONE_DAY: Final = timedelta(days=1)
# How long periods usually are; those that do not come again are after all others.
_USUAL_DAYS: Final = {
    BillingFrequency.DAILY: 1,
    BillingFrequency.WEEKLY: 7,
    BillingFrequency.MONTHLY: 30,
    BillingFrequency.ANNUALLY: 365,
}
_NEVER_AGAIN: Final = 10**9


@dataclass(frozen=True, slots=True, order=True)
class NamedPeriod:
    """Whole days, from the first one to before `after`, and how often such a period comes.

    >>> NamedPeriod(BillingFrequency.MONTHLY, date(2026, 10, 15), date(2026, 11, 15)).name
    '2026-10'
    """

    frequency: BillingFrequency
    first: date
    after: date

    @property
    def name(self) -> str:
        """The name: `2026`, `2026-10`, `2026-10-05`; ad hoc `2026-10-05/2026-10-12`."""
        match self.frequency:
            case BillingFrequency.ANNUALLY:
                return f"{self.first.year:04}"
            case BillingFrequency.MONTHLY:
                return f"{self.first.year:04}-{self.first.month:02}"
            case BillingFrequency.AD_HOC:
                return f"{self.first}/{self.after}"
        return str(self.first)

    def period(self, tz: tzinfo) -> Period:
        """The instants between its midnights in a time zone.

        It is empty where a zone skipped the whole of it, as Samoa did with 30 December 2011.
        """
        return Period(midnight(self.first, tz), midnight(self.after, tz))


def usual_days(frequency: str, interval: int) -> int:
    """How many days so many units of a frequency usually have, to say which period is shorter.

    >>> usual_days("MONTHLY", 2)
    60
    """
    days = _USUAL_DAYS.get(BillingFrequency(frequency))
    return _NEVER_AGAIN if days is None else days * interval


def containing(recurrence: Recurrence, day: date) -> NamedPeriod:
    """The period of a recurrence that contains a day.

    An epoch on a day that a month lacks means the month's last day: from 31 January on, months
    begin on 28 February, 31 March, 30 April.

    Args:
        recurrence: How often periods come, and the epoch that they are counted from.
        day: Any day; its year is between 1000 and 8999.

    Raises:
        Invalid: The day is too close to an end of the calendar.
    """
    if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
        raise Invalid(
            "day", str(day), f"it must be a day of the years {_FIRST_YEAR} to {_LAST_YEAR}"
        )
    number = recurrence.number_after(day)
    frequency = BillingFrequency(recurrence.frequency.value)
    return NamedPeriod(frequency, recurrence.day(number - 1), recurrence.day(number))


def epoch_of(frequency: BillingFrequency, organization: OrganizationConfig) -> date:
    """The day that an organization's periods of a frequency are counted from."""
    return {
        BillingFrequency.DAILY: organization.day_epoch,
        BillingFrequency.WEEKLY: organization.week_epoch,
        BillingFrequency.MONTHLY: organization.month_epoch,
        BillingFrequency.ANNUALLY: organization.year_epoch,
    }[frequency]


def recurring(frequency: BillingFrequency, epoch: date, interval: int = 1) -> Recurrence:
    """Every so many days, weeks, months or years from an epoch, in both directions."""
    return Recurrence(ScheduleFrequency(frequency.value), interval, epoch)


def parse_day(field: str, text: str) -> date:
    """Read a day such as `2026-10-05`.

    Raises:
        Invalid: It is none; the error names the field.
    """
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise Invalid(field, text, "it must be a day such as 2026-10-05")


@dataclass(frozen=True, slots=True)
class PeriodSpec:
    """Which period is asked for; which days it has depends on the organization's epochs.

    Attributes:
        day: A day of the period; the first one of an ad hoc period.
        after: The day after the last one of an ad hoc period; None otherwise.
    """

    frequency: BillingFrequency
    day: date
    after: date | None = None

    @classmethod
    def month(cls, month: Month) -> "PeriodSpec":
        """The monthly period that begins in a calendar month."""
        # Whatever the epoch, the last day of a month is in the period that began in it.
        return cls(BillingFrequency.MONTHLY, month.after - _ONE_DAY)

    @classmethod
    def on(cls, frequency: BillingFrequency, day: date) -> "PeriodSpec":
        """The period that contains a day.

        Raises:
            Invalid: Periods of such a frequency do not come again.
        """
        if frequency not in RECURRING:
            known = ", ".join(each.lower() for each in RECURRING)
            raise Invalid("frequency", frequency.lower(), f"it must be one of {known}")
        return cls(frequency, day)

    @classmethod
    def between(cls, first: date, after: date) -> "PeriodSpec":
        """The ad hoc period from a day to before another one.

        Raises:
            Invalid: It has no days.
        """
        if after <= first:
            raise Invalid("to", str(after), f"it must be a day after {first}; it is exclusive")
        return cls(BillingFrequency.AD_HOC, first, after)

    def of(self, organization: OrganizationConfig) -> NamedPeriod:
        """The period as the organization's epochs have it.

        Raises:
            Invalid: It is too close to an end of the calendar.
        """
        if self.after is not None:
            return NamedPeriod(self.frequency, self.day, self.after)
        epoch = epoch_of(self.frequency, organization)
        return containing(recurring(self.frequency, epoch), self.day)

    @classmethod
    def named(cls, frequency: BillingFrequency, name: str) -> "PeriodSpec":
        """The period of a name, such as `2026-10` of months.

        Raises:
            Invalid: It is no name of such a period.
        """
        match frequency:
            case BillingFrequency.AD_HOC:
                first, _, after = name.partition("/")
                return cls.between(parse_day("period", first), parse_day("period", after))
            case BillingFrequency.MONTHLY:
                return cls.month(Month.parse(name))
            case BillingFrequency.ANNUALLY:
                # The year that begins in a calendar year is the one of that year's last day.
                return cls.on(frequency, parse_day("period", f"{name}-12-31"))
        return cls.on(frequency, parse_day("period", name))
