"""What a bill charges of what a plan charges per period: in arrears or in advance, and every N-th time.

The regular periods of a plan are counted from its first one, which holds its first day. What is
charged every N-th time is charged for groups of N periods: that of group g stands on the plan's
bill number g·N + offset + 1; if the plan ends before, on its last bill. In advance, bills are
counted at the beginnings of periods, in arrears at their ends.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NamedTuple

from meterlake.model.values.period import Period, first_day
from meterlake.stages.bill.periods.due_periods import BillingCalendar, BillingPeriod


class ServicePeriod(NamedTuple):
    """What is charged for at once.

    Attributes:
        active: The part of it in which the plan holds.
        whole: All of it, to prorate by.
    """

    active: Period
    whole: Period


@dataclass(frozen=True, slots=True)
class Every:
    """How often something is charged: with every `interval`-th bill, the first time after `offset`."""

    interval: int = 1
    offset: int = 0


EVERY_BILL = Every()


# The service periods that end with a bill, and the one that begins with it if any.
_Begun = tuple[list[ServicePeriod], list[ServicePeriod]]


@dataclass(frozen=True, slots=True)
class PlanTime:
    """When a plan holds, beside one of its billing periods.

    Its bills are counted while it holds, also where its contract limits what is charged.

    Attributes:
        due: The billing period whose bill is made.
        own: When the plan begins and ends; None if it does not end.
        start: When what is charged begins.
        end: When it ends; None if it does not.
    """

    calendar: BillingCalendar
    due: BillingPeriod
    own: tuple[datetime, datetime | None]
    start: datetime
    end: datetime | None
    _known: dict[tuple[bool, Every], tuple[ServicePeriod, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _begins: list[_Begun] = field(default_factory=list, init=False, repr=False, compare=False)

    def services(self, *, in_advance: bool, every: Every = EVERY_BILL) -> tuple[ServicePeriod, ...]:
        """What the bill charges for, in order; worked out once for all plans of the same time."""
        found = self._known.get((in_advance, every))
        if found is None:
            found = self._known[in_advance, every] = tuple(self._services(in_advance, every))
        return found

    def _services(self, in_advance: bool, every: Every) -> Iterator[ServicePeriod]:
        if in_advance:
            groups = set(self._begun_groups(every))
        else:
            groups = set(self._charged_groups(self.due.numbers, every))
        if self._is_last:
            # The groups whose bill would come after the last one of the plan.
            last = self.due.numbers.stop - 1 - self._first
            groups.update(
                group
                for group in range(last // every.interval + 1)
                if group * every.interval + every.offset > last
            )
        for group in sorted(groups):
            found = self._service(self._first + group * every.interval, every.interval)
            if found is not None:
                yield found

    @property
    def is_held(self) -> bool:
        """Whether the plan holds at any time of the billing period."""
        return self.due.period.intersection(*self.own) is not None

    @property
    def begun(self) -> _Begun:
        """The regular periods that end with the bill, and the one that begins with it if any."""
        if not self._begins:
            ended = (self._service(number, 1) for number in self.due.numbers)
            following = self._service(self.due.numbers.stop, 1)
            begun = [each for each in ended if each], [following] if following else []
            self._begins.append(begun)
        return self._begins[0]

    def begins_with_bill(self, start: datetime) -> bool:
        """Whether the bill is the first one on or after the day on which something begins."""
        return self._is_first_from(first_day(start, self.calendar.zone))

    def _is_first_from(self, day: date) -> bool:
        """Whether the bill is the first one on or after a day."""
        return (self.due.opening or day > self.due.first) and day <= self.due.bill_date

    def _begun_groups(self, every: Every) -> Iterator[int]:
        """In advance: the first bill when a group is due and what is charged for it has begun."""
        # The regular periods of which the bill is the first one on or after their first day.
        is_first = self.due.opening or self._first_day > self.due.first
        numbers = [*(self.due.numbers if is_first else ()), self.due.numbers.stop]
        groups = set(self._charged_groups(numbers, every))
        if self.start > self.own[0]:
            number = self.due.recurrence.number_after(first_day(self.start, self.calendar.zone)) - 1
            groups.add((number - self._first) // every.interval)
        for group in groups:
            number = self._first + group * every.interval
            service = self._service(number, every.interval)
            if service is not None:
                due = self.due.recurrence.day(number + every.offset)
                begun = first_day(service.active.start, self.calendar.zone)
                if self._is_first_from(max(due, begun)):
                    yield group

    def _charged_groups(self, numbers: Iterable[int], every: Every) -> Iterator[int]:
        for number in numbers:
            group, rest = divmod(number - self._first - every.offset, every.interval)
            if group >= 0 and not rest:
                yield group

    @property
    def _first(self) -> int:
        """The number of the regular period with the plan's first day."""
        return self.due.recurrence.number_after(self._first_day) - 1

    @property
    def _first_day(self) -> date:
        return first_day(self.own[0], self.calendar.zone)

    @property
    def _is_last(self) -> bool:
        """Whether it is the last bill of the plan that has anything in arrears."""
        end = self.own[1]
        return end is not None and end <= self.due.period.end

    def _service(self, number: int, count: int) -> ServicePeriod | None:
        whole = self.calendar.regular(self.due.recurrence, number, count)
        active = whole.intersection(self.start, self.end)
        return None if active is None else ServicePeriod(active, whole)
