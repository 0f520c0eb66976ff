"""Days, billing periods and the dates of bills.

Days are local dates of the organization's zone; a period is given by its first day and the first day after it.
"""

import calendar
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from tests.billing_oracle.world import CannotBill

DAY = timedelta(days=1)
_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::(\d{2}))?")
_MONTHS = {"MONTHLY": 1, "ANNUALLY": 12}
_DAYS = {"DAILY": 1, "WEEKLY": 7}


def zone_of(name: str) -> tzinfo:
    """A zone by its name in the tz database, or by an offset such as UTC+1:00, GMT+1, +1."""
    match = _OFFSET.fullmatch(name)
    if match is None:
        return ZoneInfo(name)
    sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(offset if sign == "+" else -offset)


def read_date(text: str) -> date:
    return date.fromisoformat(text[:10])


@dataclass(frozen=True)
class Clock:
    """The organization's zone: what turns instants into days and days into instants."""

    zone: tzinfo

    def midnight(self, day: date) -> datetime:
        """The first instant of a local day."""
        return datetime(day.year, day.month, day.day, tzinfo=self.zone).astimezone(UTC)

    def instant(self, text: str) -> datetime:
        """An instant from text: a date is its local midnight, a time without a zone is UTC."""
        if len(text) == len("2022-01-01"):
            return self.midnight(read_date(text))
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)

    def local_day(self, moment: datetime) -> date:
        """The local date on which an instant lies."""
        return moment.astimezone(self.zone).date()

    def last_day(self, end: datetime) -> date:
        """The local date on which the last instant before an end lies."""
        return self.local_day(end - timedelta(microseconds=1))

    def boundary(self, moment: datetime) -> date:
        """The first day at whose end things are as they are from this instant on.

        A day counts for what holds at its end; 23:59:59 and later is taken for the midnight that follows.
        """
        local = moment.astimezone(self.zone)
        late = (local.hour, local.minute, local.second) == (23, 59, 59)
        return local.date() + (DAY if late else timedelta())

    def days(self, start: datetime, end: datetime) -> int:
        """How many days count for [start, end): those at whose end it holds."""
        return max(0, (self.boundary(end) - self.boundary(start)).days)


@dataclass(frozen=True)
class Window:
    """The instants from start (inclusive) to end (exclusive)."""

    start: datetime
    end: datetime

    def __and__(self, other: "Window") -> "Window":
        return Window(max(self.start, other.start), min(self.end, other.end))

    @property
    def is_empty(self) -> bool:
        return self.start >= self.end


EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
LATEST = datetime(3000, 1, 1, tzinfo=UTC)
EVER = Window(EARLIEST, LATEST)


def subtract(windows: list[Window], hidden: Window) -> list[Window]:
    """What remains of the windows outside another one."""
    rest = []
    for window in windows:
        before = Window(window.start, min(window.end, hidden.start))
        after = Window(max(window.start, hidden.end), window.end)
        pieces = [window] if (window & hidden).is_empty else [before, after]
        rest += [piece for piece in pieces if not piece.is_empty]
    return rest


def add_months(day: date, months: int) -> date:
    """The same day some months later; the last day of a month that is too short."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = calendar.monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


@dataclass(frozen=True)
class Grid:
    """The regular periods of a frequency and interval, counted from an epoch in both directions."""

    frequency: str
    interval: int
    epoch: date

    def start(self, number: int) -> date:
        """The first day of a period; always counted from the epoch: 31, 28, 31, 30 …"""
        if self.frequency in _MONTHS:
            return add_months(self.epoch, number * self.interval * _MONTHS[self.frequency])
        if self.frequency in _DAYS:
            return self.epoch + number * self.interval * _DAYS[self.frequency] * DAY
        raise CannotBill(f"no plan has the frequency {self.frequency}")

    def index(self, day: date) -> int:
        """The number of the period in which a day lies."""
        if self.frequency in _MONTHS:
            months = (day.year - self.epoch.year) * 12 + day.month - self.epoch.month
            number = months // (self.interval * _MONTHS[self.frequency]) + 1
        else:
            number = (day - self.epoch).days // (self.interval * _DAYS[self.frequency]) + 1
        while self.start(number) > day:
            number -= 1
        return number

    def index_from(self, day: date) -> int:
        """The number of the first period that begins on or after a day."""
        number = self.index(day)
        return number if self.start(number) == day else number + 1


def usual_days(frequency: str, interval: int) -> int:
    """About how long a period is: to compare the periods of several bills."""
    return interval * {"DAILY": 1, "WEEKLY": 7, "MONTHLY": 30, "ANNUALLY": 365}[frequency]


@dataclass(frozen=True)
class Schedule:
    """When one account plan is billed.

    Attributes:
        grid: Its regular periods.
        first_bill: Its `billEpoch`, if it begins before it: there is no bill before this date.
        active: When the plan is on the account.
    """

    clock: Clock
    grid: Grid
    first_bill: date | None
    active: Window

    @property
    def first_day(self) -> date:
        """The first day at whose end the plan holds."""
        return self.clock.boundary(self.active.start)

    @property
    def first(self) -> int:
        """The number of the regular period in which the plan begins."""
        return self.grid.index(self.clock.local_day(self.active.start))

    @property
    def last(self) -> int:
        """The number of the regular period in which the plan's last instant lies."""
        return self.grid.index(self.clock.last_day(self.active.end))

    def cell(self, number: int) -> Window:
        """A regular period from midnight to midnight, whether the plan holds in all of it or not."""
        start, end = self.grid.start(number), self.grid.start(number + 1)
        return Window(self.clock.midnight(start), self.clock.midnight(end))

    def bill_date(self, number: int) -> date:
        """The date of the bill in arrears of a regular period; those before the first bill share it."""
        end = self.grid.start(number + 1)
        return max(end, self.first_bill) if self.first_bill else end

    def last_bill_date(self) -> date:
        """The date of the plan's last bill: that of the period in which it ends."""
        return self.bill_date(self.last)

    def arrears_date(self, service: Window) -> date:
        """The bill of the billing period in which the last instant of a service period lies."""
        return self.bill_date(self.grid.index(self.clock.last_day(service.end)))

    def advance_date(self, day: date) -> date:
        """The first bill of the plan whose date is on or after a service period's first day."""
        found = self.grid.start(self.grid.index_from(day))
        found = max(found, self.first_bill) if self.first_bill else found
        return min(found, self.last_bill_date())

    def regular_periods(self, until: date) -> list[int]:
        """The numbers of the regular periods of the plan that begin on or before a day."""
        last = min(self.last, self.grid.index(until))
        return list(range(self.first, last + 1))

    def billing_periods(self, until: date) -> list[list[int]]:
        """The regular periods of each bill in arrears, of bills dated on or before a day."""
        groups: dict[date, list[int]] = {}
        for number in self.regular_periods(until):
            groups.setdefault(self.bill_date(number), []).append(number)
        return [numbers for when, numbers in groups.items() if when <= until]

    def span(self, numbers: list[int]) -> Window:
        """The billing period that some regular periods make, as instants."""
        return Window(self.cell(numbers[0]).start, self.cell(numbers[-1]).end)
