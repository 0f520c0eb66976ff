"""Which billing periods of a plan have their bills in some days, and what is charged on which bill."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple, Self

from meterlake.model.bills.bill import Bill
from meterlake.model.bills.billing_dates import BillingCycle
from meterlake.model.bills.ledger import BillRank
from meterlake.model.calendar.recurrence import DayRange, Recurrence
from meterlake.model.catalog.plans import BillingFrequency, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan, billed_account_id
from meterlake.model.customers.contracts import Contract
from meterlake.model.customers.recurring_period import (
    RECURRING,
    NamedPeriod,
    containing,
    epoch_of,
    recurring,
)
from meterlake.model.scopes.plan_fields import plans_of
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Month, Period, first_day, local_date, midnight, zone
from meterlake.stages.bill.hierarchies import Hierarchies

_ONE_DAY: Final = timedelta(days=1)
# The period that most plans have is read once for all of them.
_BY_USE: Final = (
    BillingFrequency.MONTHLY,
    BillingFrequency.ANNUALLY,
    BillingFrequency.WEEKLY,
    BillingFrequency.DAILY,
)


class BillIdentity(NamedTuple):
    """What identifies a bill of an account, however often it is calculated.

    Attributes:
        grouping_key: What tells bills of contracts apart; empty for all without a grouping key.
    """

    account_id: str
    bill_date: date
    frequency: BillingFrequency
    interval: int
    grouping_key: str = ""

    @property
    def rank(self) -> BillRank:
        """Where it stands among the bills of its account."""
        return BillRank.of(self.bill_date, self.frequency, self.interval, self.grouping_key)

    @classmethod
    def of_bill(cls, bill: Bill) -> Self:
        """That of a bill that was calculated."""
        kind = bill.billing_frequency, bill.bill_frequency_interval
        return cls(bill.account_id, bill.bill_date, *kind, bill.grouping_key)


@dataclass(frozen=True, slots=True)
class BillingPeriod:
    """What one bill of a plan is about.

    Attributes:
        first: The first day.
        bill_date: The day after the last.
        period: The same as instants.
        recurrence: The regular periods, which are numbered by it.
        numbers: The numbers of the regular periods in it: one, but for a long first period.
        opening: Whether it is a long first period, until the first bill date.
    """

    first: date
    bill_date: date
    period: Period
    recurrence: Recurrence
    numbers: range
    opening: bool = False

    @property
    def frequency(self) -> BillingFrequency:
        """How often a regular period comes."""
        return BillingFrequency(self.recurrence.frequency.value)

    @property
    def interval(self) -> int:
        """How many units of the frequency a regular period has."""
        return self.recurrence.interval


class BillingCalendar:
    """The billing periods whose bills are made with some days: those whose last day is one of them.

    So each bill is made with exactly one day, all bills of a bill date are made with the same one,
    and when the days are over, the periods of their bills are over, too.
    """

    def __init__(
        self,
        configuration: Configuration,
        days: Month | DayRange,
        frequency: BillingFrequency | None = None,
        open_day: date | None = None,
    ) -> None:
        """Read what decides.

        Args:
            configuration: All of an organization's entities.
            days: The last days of the billing periods.
            frequency: That of most of the bills that are made; any if None.
            open_day: Beside these, the billing periods that are open on this day.
        """
        self.configuration = configuration
        self.days = days
        self.frequency = frequency
        self.open_day = open_day
        self.organization = configuration.single(OrganizationConfig).entity
        self.zone = zone(self.organization.timezone)
        self.period = self._whole_period()
        # Most plans have the same periods; sharing them makes looking quantities up by them fast.
        self._periods_of = lru_cache(maxsize=1024)(self._of_cycle)
        self.regular = lru_cache(maxsize=4096)(self._regular)

    @property
    def bill_dates(self) -> tuple[date, date]:
        """The first and the last bill date of the days."""
        return self.days.first + _ONE_DAY, self.days.after

    def time_of(self, account_plan: AccountPlan) -> tuple[datetime, datetime | None]:
        """When an account plan is charged: while it holds, within its contract if this limits it."""
        start, end = own_time(account_plan)
        if account_plan.contract_id is None:
            return start, end
        contract = self.configuration.get(Contract, account_plan.contract_id).entity
        if not contract.apply_contract_period_limits:
            return start, end
        first, after = (
            midnight(day, self.zone) for day in (contract.start_date, contract.end_date)
        )
        return max(start, first), after if end is None else min(end, after)

    def due(self, account_plan: AccountPlan) -> Iterator[BillingPeriod]:
        """The billing periods of an account plan whose bills are made with the days.

        One that only begins with its bill date is among them: it may be charged in advance. A
        contract that limits what is charged does not change when there are bills.
        """
        cycle = self.cycle_of(account_plan)
        if cycle is None:
            return
        start, end = own_time(account_plan)
        begin = first_day(start, self.zone)
        for found in self._periods_of(cycle):
            held = found.period.intersection(start, end)
            is_begun = begin == found.bill_date and cycle.begin != begin
            if held or (is_begun and (end is None or start < end)):
                yield found

    def next_bill_date(self, account_plan: AccountPlan) -> date | None:
        """The first bill date of a plan after the last of the days; None without one."""
        cycle = self.cycle_of(account_plan)
        return None if cycle is None else cycle.containing(self.days.after - _ONE_DAY).after

    def bill_date_from(self, account_plan: AccountPlan, day: date) -> date | None:
        """The first bill date of a plan on or after a day; None if it has no bill then."""
        cycle = self.cycle_of(account_plan)
        if cycle is None:
            return None
        begin = local_date(account_plan.start_date, self.zone)
        found = cycle.containing(max(day - _ONE_DAY, begin))
        period = found.period(self.zone)
        return found.after if period.intersection(*own_time(account_plan)) else None

    def has_regular_period(self, account_plan: AccountPlan, period: Period) -> bool:
        """Whether a period is one of the regular ones of an account plan."""
        cycle = self.cycle_of(account_plan)
        if cycle is None:
            return False
        number = cycle.recurrence.number_after(local_date(period.start, self.zone)) - 1
        return self.regular(cycle.recurrence, number) == period

    def billed_with(self, account_plan: AccountPlan) -> Iterator[Month]:
        """The months with which is billed what a plan charges on the days."""
        cycle = self.cycle_of(account_plan)
        day = self.days.first
        while cycle is not None and day < self.days.after:
            found = cycle.containing(day)
            last_day = found.after - _ONE_DAY
            yield Month(last_day.year, last_day.month)
            day = found.after

    def without_plan(self, key: BillIdentity) -> BillingPeriod:
        """The period of a bill that no plan makes; of a bill of charges alone it is a day."""
        if key.frequency not in RECURRING:
            key = key._replace(frequency=BillingFrequency.DAILY)
        cycle = BillingCycle(recurring(key.frequency, key.bill_date, key.interval))
        return self._billing_period(cycle, cycle.containing(key.bill_date - _ONE_DAY))

    @property
    def as_billing_period(self) -> BillingPeriod:
        """The whole period of the run, as if it were a billing period of all plans."""
        first, after = (
            local_date(each, self.zone) for each in (self.period.start, self.period.end)
        )
        length = max((after - first).days, 1)
        recurrence = recurring(BillingFrequency.DAILY, first, length)
        return BillingPeriod(first, after, self.period, recurrence, range(1))

    def _whole_period(self) -> Period:
        """The days; if they are one or none, the organization's period that it ends, or is open in."""
        if self.open_day is not None:
            frequency = self.frequency if self.frequency in RECURRING else _BY_USE[0]
            return self._own_period(frequency, self.open_day).period(self.zone)
        if self.days.after - self.days.first == _ONE_DAY:
            for frequency in [self.frequency] if self.frequency in RECURRING else _BY_USE:
                found = self._own_period(frequency, self.days.first)
                if found.after == self.days.after:
                    return found.period(self.zone)
        return Period(midnight(self.days.first, self.zone), midnight(self.days.after, self.zone))

    def _own_period(self, frequency: BillingFrequency, day: date) -> NamedPeriod:
        """The organization's own period with a day."""
        return containing(recurring(frequency, epoch_of(frequency, self.organization)), day)

    def _regular(self, recurrence: Recurrence, number: int, count: int = 1) -> Period:
        """So many regular periods from the one of a number on, as one."""
        start = midnight(recurrence.day(number), self.zone)
        found = Period(start, midnight(recurrence.day(number + count), self.zone))
        return self.period if found == self.period else found

    def cycle_of(self, account_plan: AccountPlan) -> BillingCycle | None:
        """The billing periods of an account plan; None if it has none."""
        # All plans of a plan group have the same.
        plan = next(plans_of(account_plan, self.configuration), None)
        if plan is None:
            return None
        template = self.configuration.get(PlanTemplate, plan.plan_template_id).entity
        frequency, interval = template.bill_frequency, template.bill_frequency_interval
        if frequency not in RECURRING:
            return None
        billed_id = billed_account_id(account_plan, self.configuration)
        billed: Record[Account] = self.configuration.get(Account, billed_id)
        first_bill = account_plan.bill_epoch or billed.entity.bill_epoch
        epoch = first_bill or epoch_of(frequency, self.organization)
        recurrence = recurring(frequency, epoch, interval)
        if first_bill is None:
            return BillingCycle(recurrence)
        return BillingCycle.from_first_bill(recurrence, account_plan.start_date, self.zone)

    def _of_cycle(self, cycle: BillingCycle) -> tuple[BillingPeriod, ...]:
        found = []
        # Until the first bill date, no period ends.
        named = cycle.containing(self.days.first)
        while named.after <= self.days.after or (
            self.open_day is not None and named.first <= self.open_day
        ):
            found.append(self._billing_period(cycle, named))
            named = cycle.containing(named.after)
        return tuple(found)

    def _billing_period(self, cycle: BillingCycle, found: NamedPeriod) -> BillingPeriod:
        recurrence = cycle.recurrence
        after = recurrence.number_after(found.after - _ONE_DAY)
        period = found.period(self.zone)
        instants = self.period if period == self.period else period
        return BillingPeriod(
            first=found.first,
            bill_date=found.after,
            period=instants,
            recurrence=recurrence,
            numbers=range(recurrence.number_after(found.first) - 1, after),
            opening=cycle.begin is not None and found.first == cycle.begin,
        )


def own_time(account_plan: AccountPlan) -> tuple[datetime, datetime | None]:
    """When an account plan holds, whatever its contract says."""
    return account_plan.start_date, account_plan.end_date


def months_billed_with(
    configuration: Configuration, months: Mapping[Month, Collection[str]]
) -> dict[Month, set[str]]:
    """The months with which is billed what accounts use in some months.

    Args:
        configuration: All of an organization's entities.
        months: The ids of the accounts, by month.

    Returns:
        The same months, and those that first bill dates and intervals of plans add; with the
        accounts, and the parents and children on whose bills it stands.
    """
    found = {month: set(account_ids) for month, account_ids in months.items()}
    hierarchies = Hierarchies(configuration)
    for month, account_ids in months.items():
        calendar = BillingCalendar(configuration, month)
        for account_id in account_ids:
            for record, billed_ids in hierarchies.billed_for(account_id):
                for other in calendar.billed_with(record.entity):
                    found.setdefault(other, set()).update(billed_ids)
    return dict(sorted(found.items()))
