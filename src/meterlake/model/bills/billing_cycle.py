"""The billing periods of a plan: regular ones, and a long first one until its first bill date."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import Final, Self

from meterlake.model.calendar.recurrence import Recurrence
from meterlake.model.customers.recurring_period import NamedPeriod, containing
from meterlake.model.values.period import local_date

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
