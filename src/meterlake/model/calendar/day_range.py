"""Days from a first one to before another."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Self


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
