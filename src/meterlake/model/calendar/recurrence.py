"""Days that come again: every so many days, weeks, months or years from an anchor.

Each is counted from the anchor, not from the one before: a month after 31 January is the last day
of February, and two months after it is 31 March.

Days from a first one to before another.

Cron expressions: minute, hour, day of the month, month, day of the week; in UTC. cronsim reads them
and finds their times, as crontab(5) of Debian has them.
"""

from calendar import monthrange
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from enum import StrEnum
from itertools import count, pairwise, takewhile
from typing import Final, Self

from cronsim import CronSim, CronSimError

from meterlake.model.errors import Invalid
from meterlake.model.values.period import Period, local_date, midnight

_MONTHS: Final = 12
# cronsim also takes six, the first of which is the second.
_FIELDS: Final = 5
_HOUR: Final = 60
_DAY: Final = 24 * _HOUR
# From here, cronsim looks ahead fifty years, in which every day of a calendar comes.
_START: Final = datetime(2000, 1, 1, tzinfo=UTC)
_RULE: Final = "it must have five fields: minute, hour, day of the month, month, day of the week, such as 0 6 * * MON"


class ScheduleFrequency(StrEnum):
    """The unit of a schedule's interval."""

    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    ANNUALLY = "ANNUALLY"


_DAYS_OF: Final = {ScheduleFrequency.DAILY: 1, ScheduleFrequency.WEEKLY: 7}
_MONTHS_OF: Final = {ScheduleFrequency.MONTHLY: 1, ScheduleFrequency.ANNUALLY: _MONTHS}


@dataclass(frozen=True, slots=True)
class Recurrence:
    """Every `interval` units of a frequency, counted from an anchor in both directions."""

    frequency: ScheduleFrequency
    interval: int
    anchor: date

    def day(self, number: int) -> date:
        """The day of a number; 0 is the anchor. Outside of the calendar: its first or last day.

        >>> Recurrence(ScheduleFrequency.MONTHLY, 1, date(2026, 1, 31)).day(1)
        datetime.date(2026, 2, 28)
        """
        days = _DAYS_OF.get(self.frequency)
        if days is not None:
            ordinal = self.anchor.toordinal() + number * self.interval * days
            return date.fromordinal(min(max(ordinal, 1), date.max.toordinal()))
        months = number * self.interval * _MONTHS_OF[self.frequency]
        year, month = divmod(self.anchor.year * _MONTHS + self.anchor.month - 1 + months, _MONTHS)
        if not date.min.year <= year <= date.max.year:
            return date.min if year < date.min.year else date.max
        return date(year, month + 1, min(self.anchor.day, monthrange(year, month + 1)[1]))

    def number_after(self, day: date) -> int:
        """The number of the first day that comes after a day."""
        days = _DAYS_OF.get(self.frequency)
        if days is not None:
            return (day - self.anchor).days // (days * self.interval) + 1
        between = (day.year - self.anchor.year) * _MONTHS + day.month - self.anchor.month
        number = between // (_MONTHS_OF[self.frequency] * self.interval)
        return number if self.day(number) > day else number + 1


def periods(whole: Period, recurrence: Recurrence, tz: tzinfo, skip: int = 0) -> Iterator[Period]:
    """A period cut at the midnights of recurring days; the first and the last part may be short.

    Args:
        whole: What is cut.
        recurrence: The days.
        tz: The time zone of the midnights.
        skip: How many parts to pass over.
    """
    first = recurrence.number_after(local_date(whole.start, tz))
    start = whole.start if skip == 0 else midnight(recurrence.day(first + skip - 1), tz)
    for number in count(first + skip):
        if start >= whole.end:
            return
        end = min(midnight(recurrence.day(number), tz), whole.end)
        yield Period(start, end)
        start = end


def instants(
    whole: Period, frequency: ScheduleFrequency, interval: int, tz: tzinfo, skip: int = 0
) -> Iterator[datetime]:
    """The start of a period and its recurrences before the end, at the same time of the day.

    Args:
        whole: From the first one, inclusive, to an exclusive end.
        frequency: The unit of the interval.
        interval: How many units lie between two.
        tz: The time zone of the days.
        skip: How many to pass over.
    """
    local = whole.start.astimezone(tz)
    recurrence = Recurrence(frequency, interval, local.date())
    for number in count(skip):
        day = recurrence.day(number)
        if day == date.max:
            return
        instant = datetime.combine(day, local.time(), tzinfo=tz).astimezone(UTC)
        if instant >= whole.end:
            return
        yield instant


def instants_after(
    known: datetime | None, whole: Period, frequency: ScheduleFrequency, interval: int, tz: tzinfo
) -> Iterator[datetime]:
    """Those of `instants` that come after a known one; all if there is none.

    Args:
        known: One that was dealt with, as all before it were.
        whole: See `instants`.
        frequency: See `instants`.
        interval: See `instants`.
        tz: See `instants`.
    """
    if known is None or known < whole.start:
        yield from instants(whole, frequency, interval, tz)
        return
    recurrence = Recurrence(frequency, interval, local_date(whole.start, tz))
    # The day of the known one may have another time of the day now.
    skip = max(recurrence.number_after(local_date(known, tz)) - 1, 0)
    for instant in instants(whole, frequency, interval, tz, skip):
        if instant > known:
            yield instant


@dataclass(frozen=True, slots=True)
class DayRange:
    """Whole calendar days, from the first one to before `after`.

    >>> str(DayRange(date(2026, 10, 1), date(2026, 11, 1)))
    '2026-10-01/2026-11-01'
    """

    first: date
    after: date

    @classmethod
    def of_day(cls, day: date) -> Self:
        """One day."""
        return cls(day, day + timedelta(days=1))

    def __contains__(self, day: date) -> bool:
        return self.first <= day < self.after

    def __str__(self) -> str:
        return f"{self.first}/{self.after}"


def parse_cron(place: str, text: str) -> CronSim:
    """Read an expression.

    Raises:
        Invalid: It is none, or no day ever meets it.
    """
    try:
        cron = _parse(text, _START)
    # A number of thousands of digits is no CronSimError.
    except (CronSimError, ValueError) as error:
        is_known = isinstance(error, CronSimError)
        fault = str(error).lower() if is_known else "number that is too long"
        raise Invalid(place, text, f"{_RULE}; this has a {fault}") from None
    if next(cron, None) is None:
        raise Invalid(place, text, "it must name a day that exists")
    return cron


def shortest_gap(cron: CronSim) -> int:
    """The least minutes between two times at which it is due; a day at most.

    Hours that follow each other over midnight count, whatever the days are.

    >>> shortest_gap(parse_cron("cron", "0,50 9,10 * * *"))
    10
    """
    times = sorted(hour * _HOUR + minute for hour in cron.hours for minute in cron.minutes)
    return min(later - sooner for sooner, later in pairwise([*times, times[0] + _DAY]))


def cron_times(text: str, after: datetime, until: datetime) -> Iterator[datetime]:
    """When an expression is due, later than `after` and not later than `until`, the soonest first.

    Args:
        text: What `parse_cron` took.
        after: In any zone; the fields are those of UTC.
        until: In any zone.
    """
    return takewhile(lambda due: due <= until, _parse(text, after.astimezone(UTC)))


def _parse(text: str, after: datetime) -> CronSim:
    if len(text.split()) != _FIELDS:
        raise CronSimError("wrong number of fields")
    # Quartz writes ? for any day.
    return CronSim(text.replace("?", "*"), after)
