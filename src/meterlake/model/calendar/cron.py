"""Cron expressions: minute, hour, day of the month, month, day of the week; in UTC."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Final, NamedTuple, Self

from meterlake.model.errors import Invalid

_MONTHS: Final = dict(
    zip(
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
        range(1, 13),
        strict=True,
    )
)
_WEEKDAYS: Final = dict(
    zip(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"), range(7), strict=True)
)
_LONGEST: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PIECE: Final = re.compile(r"(\*|\?|[A-Z0-9]{1,3})(?:-([A-Z0-9]{1,3}))?(?:/([0-9]{1,2}))?")
_HOUR: Final = 60
_DAY: Final = 24 * _HOUR
_SUNDAY: Final = 7
_RULE: Final = (
    "five fields: minute, hour, day of the month, month, day of the week, such as 0 6 * * MON"
)


class _Field(NamedTuple):
    """The least and greatest value of a field, and the names of its values."""

    least: int
    most: int
    names: dict[str, int]


_FIELDS: Final = (
    _Field(0, 59, {}),
    _Field(0, 23, {}),
    _Field(1, 31, {}),
    _Field(1, 12, _MONTHS),
    _Field(0, _SUNDAY, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """When something is due: the minutes at which every field holds.

    Attributes:
        days: Days of the month; None if any will do.
        weekdays: 0 is Sunday; None if any will do. Where both are given, one of them is enough.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    @classmethod
    def parse(cls, place: str, text: str) -> Self:
        """Read an expression.

        Raises:
            Invalid: It is none, or no day ever meets it.
        """
        parts = text.upper().split()
        if len(parts) != len(_FIELDS):
            raise Invalid(place, text, _RULE)
        try:
            sets = [_values(part, field) for part, field in zip(parts, _FIELDS, strict=True)]
        except ValueError:
            raise Invalid(place, text, _RULE) from None
        minutes, hours, days, months, weekdays = sets
        cron = cls(
            minutes=minutes,
            hours=hours,
            days=None if parts[2][0] in "*?" and len(days) == _FIELDS[2].most else days,
            months=months,
            weekdays=None if parts[4] in "*?" else frozenset(day % _SUNDAY for day in weekdays),
        )
        if not cron._ever():
            raise Invalid(place, text, "a day that exists")
        return cron

    def shortest_gap(self) -> int:
        """The least minutes between two times at which it is due; a day at most.

        Hours that follow each other over midnight count, whatever the days are.

        >>> Cron.parse("cron", "0,50 9,10 * * *").shortest_gap()
        10
        """
        times = sorted(hour * _HOUR + minute for hour in self.hours for minute in self.minutes)
        return min(later - sooner for sooner, later in pairwise([*times, times[0] + _DAY]))

    def times(self, after: datetime, until: datetime) -> Iterator[datetime]:
        """When it is due, later than `after` and not later than `until`, the soonest first."""
        times = [
            time(hour, minute) for hour in sorted(self.hours) for minute in sorted(self.minutes)
        ]
        first, last = after.astimezone(UTC).date(), until.astimezone(UTC).date()
        for days in range((last - first).days + 1):
            day = first + timedelta(days)
            if self._meets(day):
                whole = (datetime.combine(day, each, UTC) for each in times)
                yield from (instant for instant in whole if after < instant <= until)

    def _meets(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_day = self.days is not None and day.day in self.days
        by_weekday = self.weekdays is not None and day.isoweekday() % _SUNDAY in self.weekdays
        return by_day or by_weekday or (self.days is None and self.weekdays is None)

    def _ever(self) -> bool:
        if self.days is None or self.weekdays is not None:
            return True
        return any(min(self.days) <= _LONGEST[month] for month in self.months)


def _values(text: str, field: _Field) -> frozenset[int]:
    values: set[int] = set()
    for piece in text.split(","):
        values.update(_piece(piece, field))
    return frozenset(values)


def _piece(text: str, field: _Field) -> range:
    match = _PIECE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    first, last, step = match.groups()
    if first in {"*", "?"}:
        start, end = field.least, field.most
    else:
        start = _number(first, field)
        end = _number(last, field) if last else field.most if step else start
    distance = int(step or 1)
    if not field.least <= start <= end <= field.most or distance == 0:
        raise ValueError(text)
    if first in {"*", "?"} and last:
        raise ValueError(text)
    return range(start, end + 1, distance)


def _number(text: str, field: _Field) -> int:
    return field.names[text] if text in field.names else int(text)
