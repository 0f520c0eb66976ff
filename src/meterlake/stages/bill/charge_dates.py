"""On which bill a single charge stands: one that is due by configuration, else one of its own."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Final

from meterlake.model.accounts import AccountPlan
from meterlake.model.charges import Charge
from meterlake.model.entity import Record
from meterlake.model.period import local_date
from meterlake.model.pricing import BillingFrequency
from meterlake.stages.bill.due import BillIdentity, BillingCalendar
from meterlake.stages.bill.identities import BillIdentities

_ONE_DAY: Final = timedelta(days=1)
# Of several bills of a date, a charge joins the one with the shortest period.
_LENGTHS: Final = {
    BillingFrequency.DAILY: 1,
    BillingFrequency.WEEKLY: 7,
    BillingFrequency.MONTHLY: 30,
    BillingFrequency.ANNUALLY: 365,
}


class ChargeDates:
    """Finds the bills of charges, whichever of these a run makes."""

    def __init__(self, calendar: BillingCalendar, identities: BillIdentities) -> None:
        """Begin.

        Args:
            calendar: The days of the run.
            identities: Names bills.
        """
        self.calendar = calendar
        self.identities = identities

    def by_bill(
        self, account_id: str, plans: Iterable[Record[AccountPlan]]
    ) -> Mapping[BillIdentity, list[Record[Charge]]]:
        """The charges of an account by the bills of the run's days on which they stand."""
        charges = self.calendar.configuration.where(Charge, "account_id", account_id)
        found: dict[BillIdentity, list[Record[Charge]]] = defaultdict(list)
        if not charges:
            return found
        plans = list(plans)
        due = self._due(account_id, plans)
        for record in charges:
            bill_date = self._bill_date(record.entity, plans)
            contract_id = record.entity.contract_id
            key = due.get((bill_date, self.identities.grouping_key(contract_id)))
            if key is None and self._is_made(bill_date):
                key = self.identities.of_charge(account_id, bill_date, contract_id)
            if key is not None:
                found[key].append(record)
        return found

    def _due(
        self, account_id: str, plans: Iterable[Record[AccountPlan]]
    ) -> dict[tuple[date, str], BillIdentity]:
        """The bill that charges join, by bill date and grouping key."""
        keys = {
            self.identities.of_plan(account_id, period, plan.entity.contract_id)
            for plan in plans
            for period in self.calendar.due(plan.entity)
        }
        shortest = sorted(
            keys, key=lambda key: (_LENGTHS.get(key.frequency, 0) * key.interval, key)
        )
        return {(key.bill_date, key.grouping_key): key for key in reversed(shortest)}

    def _bill_date(self, charge: Charge, plans: Iterable[Record[AccountPlan]]) -> date:
        """Its own bill date, else the account's first one on or after the end of its service."""
        if charge.bill_date is not None:
            return charge.bill_date
        last_instant = charge.service_period_end_date - timedelta(microseconds=1)
        end = local_date(last_instant, self.calendar.zone) + _ONE_DAY
        found = (self.calendar.bill_date_from(plan.entity, end) for plan in plans)
        return min((each for each in found if each is not None), default=end)

    def _is_made(self, bill_date: date) -> bool:
        days = self.calendar.days
        open_day = self.calendar.open_day
        after = days.after if open_day is None else max(days.after, open_day + _ONE_DAY)
        return days.first < bill_date <= after
