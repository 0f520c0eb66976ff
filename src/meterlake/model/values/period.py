"""Instants and periods: the one grammar of instants, half-open periods, calendar months.

The only module that knows time zones. Everything below it works with UTC.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from meterlake.model.errors import Invalid

# ISO 8601 as every door reads it. Offsets up to 18:00, no 24:00, no leap second, year 1 or later.
INSTANT_PATTERN: Final = (
    r"(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
    r"-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]"
    r"(?::[0-5][0-9](?:\.[0-9]+)?)?"
    r"(?:Z|[+-](?:(?:0[0-9]|1[0-7]):?[0-5][0-9]|18:?00|0[0-9]|1[0-8]))?"
)
_INSTANT = re.compile(INSTANT_PATTERN)
DAY_PATTERN: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFFSET_ZONE = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-5][0-9]))?")

FUTURE_TOLERANCE: Final = timedelta(minutes=5)
_ONE_DAY: Final = timedelta(days=1)
# An end written as 23:59:59 means the midnight after it.
_LAST_SECOND: Final = timedelta(seconds=1)


def parse_instant(text: str) -> datetime | None:
    """Read an instant as every door of meterlake reads it.

    Args:
        text: ISO 8601 date and time, `T` or a space between; without an offset it is UTC.

    Returns:
        The instant in UTC, aware, cut (not rounded) to microseconds; None if it is none.
    """
    if not _INSTANT.fullmatch(text):
        return None
    # fromisoformat cuts digits below the microsecond, as we want.
    try:
        instant = datetime.fromisoformat(text)
        return (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def format_instant(instant: datetime) -> str:
    """Write an instant as the wire does: UTC with `Z`, a fraction only where there is one."""
    assert instant.tzinfo is not None, instant
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def naive(instant: datetime) -> datetime:
    """An instant as the lake keeps it: UTC without saying so."""
    return instant.astimezone(UTC).replace(tzinfo=None)


def aware(instant: datetime) -> datetime:
    """What `naive` was made from."""
    return instant.replace(tzinfo=UTC)


def zone(name: str) -> tzinfo:
    """Find a time zone by tz database name or by offset: `Europe/Berlin`, `UTC+1:00`, `+1`.

    Raises:
        Invalid: There is no such zone.
    """
    match = _OFFSET_ZONE.fullmatch(name)
    if match:
        sign, hours, minutes = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        if offset <= timedelta(hours=18):
            return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(
            "timezone", name, "it must be a tz database name or an offset such as UTC+1:00"
        ) from None


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """A half-open stretch of time `[start, end)` in aware UTC instants."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError(f"a period needs aware instants, got {self.start!r}, {self.end!r}")
        if self.start > self.end:
            raise ValueError(f"a period cannot end before it starts: {self.start} > {self.end}")

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end

    def intersection(self, start: datetime | None, end: datetime | None) -> "Period | None":
        """The part from `start` to `end`, where None is open; None if nothing is left."""
        low = max(self.start, start) if start else self.start
        high = min(self.end, end) if end else self.end
        return Period(low, high) if low < high else None

    def __str__(self) -> str:
        return f"[{format_instant(self.start)}, {format_instant(self.end)})"


def uncovered_periods(period: Period, covered: Iterable[Period]) -> Iterator[Period]:
    """What is left of a period without those that cover parts of it, in order."""
    start = period.start
    for part in sorted(covered):
        if part.start > start:
            yield Period(start, min(part.start, period.end))
        start = max(start, part.end)
        if start >= period.end:
            return
    yield Period(start, period.end)


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month, named as the command line names it: `2026-10`."""

    year: int
    month: int

    @classmethod
    def parse(cls, text: str) -> "Month":
        """Read `2026-10`.

        Raises:
            Invalid: It is no month.
        """
        match = re.fullmatch(r"([0-9]{4})-(0[1-9]|1[0-2])", text)
        # The first and the last year would reach outside of the calendar in some time zones.
        if not match or match[1] in {"0000", "0001", "9999"}:
            raise Invalid("month", text, "it must be a year and a month such as 2026-10")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"

    @property
    def first(self) -> date:
        """The first day."""
        return date(self.year, self.month, 1)

    @property
    def after(self) -> date:
        """The first day of the following month."""
        return date(self.year + self.month // 12, self.month % 12 + 1, 1)

    def moved(self, months: int) -> "Month":
        """The month so many months later; earlier ones have negative numbers."""
        years, month = divmod(self.month - 1 + months, 12)
        return Month(self.year + years, month + 1)

    @classmethod
    def between(cls, first: date, after: date) -> "Iterator[Month]":
        """The months that have days from one on until before another."""
        while first < after:
            month = cls(first.year, first.month)
            yield month
            first = month.after

    def period(self, tz: tzinfo) -> Period:
        """The month's period in a time zone, as UTC instants."""
        return Period(midnight(self.first, tz), midnight(self.after, tz))


def midnight(day: date, tz: tzinfo) -> datetime:
    """The instant at which a day begins in a time zone, in UTC.

    Where the clocks skip midnight, the day begins when they do so.
    """
    return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)


def local_date(instant: datetime, tz: tzinfo) -> date:
    """The calendar day of an instant in a time zone."""
    return instant.astimezone(tz).date()


def first_day(instant: datetime, tz: tzinfo) -> date:
    """The calendar day on which something begins that begins at an instant.

    What begins in the last second of a day begins with the midnight that follows.
    """
    return local_date(instant + _LAST_SECOND, tz)


@lru_cache(maxsize=1024)
def count_days(period: Period, tz: tzinfo) -> int:
    """How many calendar days a period holds at the end of.

    A day counts for what holds at its last instant, so parts that follow each other count together
    as many days as the whole, wherever it is split. What begins and ends within a day counts none.
    A start or an end in the last second of a day is taken for the midnight that follows.
    """
    return (_day_begun(period.end, tz) - _day_begun(period.start, tz)).days


def _day_begun(instant: datetime, tz: tzinfo) -> date:
    """The last day whose midnight an instant has reached, or reaches within a second."""
    # The clocks may fall back over a midnight; by the first one the next day has begun.
    reached = instant + _LAST_SECOND
    day = local_date(reached, tz)
    following = day + _ONE_DAY
    return following if midnight(following, tz) <= reached else day


# The bills of a month prorate by few different periods.
@lru_cache(maxsize=1024)
def share(active: Period, full: Period, tz: tzinfo) -> tuple[int, int]:
    """Calendar days of `active` and of `full`, to prorate by their quotient."""
    return count_days(active, tz), count_days(full, tz)
