"""Which billing period of a plan is billed with a month, and on which bill it stands."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.billing_cycle import BillingCycle
from meterlake.model.calendar.recurring_period import NamedPeriod, recurring
from meterlake.model.entity import Configuration, Record
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, Period, zone
from meterlake.model.pricing import BillingFrequency, Plan, PlanTemplate

_ONE_DAY: Final = timedelta(days=1)


class BillIdentity(NamedTuple):
    """What identifies a bill of an account, with its frequency, however often it is calculated."""

    account_id: str
    bill_date: date
    interval: int


@dataclass(frozen=True, slots=True)
class BillingPeriod:
    """What one bill of a plan is about.

    Attributes:
        first: The first day.
        bill_date: The day after the last.
        interval: How many months a regular period has.
        period: The same as instants.
        regular: The whole regular periods in it: one, but for a long first period.
    """

    first: date
    bill_date: date
    interval: int
    period: Period
    regular: tuple[Period, ...]


class BillingCalendar:
    """The billing periods whose bills are made with a month: those whose last day is in it.

    So each bill is made with exactly one month, all bills of a bill date are made with the same
    one, and when the month is over, their periods are over, too.
    """

    def __init__(self, configuration: Configuration, month: Month) -> None:
        """Read what decides."""
        self.configuration = configuration
        self.month = month
        self.organization = configuration.single(OrganizationConfig).entity
        self.zone = zone(self.organization.timezone)
        self.period = month.period(self.zone)
        # Most plans have the same period; sharing it makes looking quantities up by it fast.
        self._period_of = lru_cache(maxsize=1024)(self._of_cycle)

    def due(self, account_plan: AccountPlan) -> BillingPeriod | None:
        """The billing period of an account plan that is billed with the month; None without one."""
        cycle = self._cycle(account_plan)
        found = None if cycle is None else self._period_of(cycle)
        held = found and found.period.intersection(account_plan.start_date, account_plan.end_date)
        return found if held else None

    def next_bill_date(self, account_plan: AccountPlan) -> date | None:
        """The first bill date of a plan after the last day of the month; None without one."""
        cycle = self._cycle(account_plan)
        return None if cycle is None else cycle.containing(self.month.after - _ONE_DAY).after

    def billed_with(self, account_plan: AccountPlan) -> Iterator[Month]:
        """The months with which is billed what a plan charges in this one."""
        cycle = self._cycle(account_plan)
        day = self.month.first
        while cycle is not None and day < self.month.after:
            found = cycle.containing(day)
            last_day = found.after - _ONE_DAY
            yield Month(last_day.year, last_day.month)
            day = found.after

    def without_plan(self, key: BillIdentity) -> BillingPeriod:
        """The period of a bill that no plan makes any more."""
        cycle = BillingCycle(recurring(BillingFrequency.MONTHLY, key.bill_date, key.interval))
        return self._billing_period(cycle, cycle.containing(key.bill_date - _ONE_DAY))

    def _cycle(self, account_plan: AccountPlan) -> BillingCycle | None:
        """The billing periods of an account plan; None if it is not billed by months."""
        if account_plan.plan_id is None:
            return None
        plan = self.configuration.get(Plan, account_plan.plan_id).entity
        template = self.configuration.get(PlanTemplate, plan.plan_template_id).entity
        if template.bill_frequency is not BillingFrequency.MONTHLY:
            return None
        account: Record[Account] = self.configuration.get(Account, account_plan.account_id)
        first_bill = account_plan.bill_epoch or account.entity.bill_epoch
        epoch = first_bill or self.organization.month_epoch
        recurrence = recurring(BillingFrequency.MONTHLY, epoch, template.bill_frequency_interval)
        if first_bill is None:
            return BillingCycle(recurrence)
        return BillingCycle.from_first_bill(recurrence, account_plan.start_date, self.zone)

    def _of_cycle(self, cycle: BillingCycle) -> BillingPeriod | None:
        bill_date = cycle.recurrence.day(cycle.recurrence.number_after(self.month.first))
        if bill_date > self.month.after:
            return None
        found = cycle.containing(bill_date - _ONE_DAY)
        # Until the first bill date, no period ends.
        return self._billing_period(cycle, found) if found.after == bill_date else None

    def _billing_period(self, cycle: BillingCycle, found: NamedPeriod) -> BillingPeriod:
        return BillingPeriod(
            first=found.first,
            bill_date=found.after,
            interval=cycle.recurrence.interval,
            period=self._instants(found),
            regular=tuple(map(self._instants, cycle.regular(found))),
        )

    def _instants(self, found: NamedPeriod) -> Period:
        period = found.period(self.zone)
        return self.period if period == self.period else period


def months_billed_with(
    configuration: Configuration, months: Mapping[Month, Collection[str]]
) -> dict[Month, set[str]]:
    """The months with which is billed what accounts use in some months.

    Args:
        configuration: All of an organization's entities.
        months: The ids of the accounts, by month.

    Returns:
        The same months, and those that first bill dates and intervals of the accounts' plans add.
    """
    found = {month: set(account_ids) for month, account_ids in months.items()}
    for month, account_ids in months.items():
        calendar = BillingCalendar(configuration, month)
        for account_id in account_ids:
            for record in configuration.where(AccountPlan, "account_id", account_id):
                for other in calendar.billed_with(record.entity):
                    found.setdefault(other, set()).add(account_id)
    return dict(sorted(found.items()))
