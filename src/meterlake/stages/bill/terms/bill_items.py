"""On which bill stands what has a date of its own: single charges, and fees on fee dates.

They join a bill that is due by configuration, else they make one of their own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Final, NamedTuple

from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.commitments import Commitment
from meterlake.model.values.entity import Record
from meterlake.model.values.period import local_date
from meterlake.stages.bill.periods.due import BillIdentity, BillingCalendar
from meterlake.stages.bill.periods.identities import BillIdentities
from meterlake.stages.bill.terms.advance_lines import AdvanceMemo
from meterlake.stages.bill.terms.commitment_fees import dated_instalments
from meterlake.stages.bill.terms.fees_with_plans import DueFee

_ONE_DAY: Final = timedelta(days=1)


@dataclass(slots=True)
class BillItems:
    """What stands on a bill beside what its plans charge."""

    charges: list[Record[Charge]] = field(default_factory=list)
    fees: list[DueFee] = field(default_factory=list)
    memos: list[AdvanceMemo] = field(default_factory=list)

    def add(self, item: "Record[Charge] | DueFee | AdvanceMemo") -> None:
        """Add one of any kind."""
        if isinstance(item, DueFee):
            self.fees.append(item)
        elif isinstance(item, AdvanceMemo):
            self.memos.append(item)
        else:
            self.charges.append(item)


class _DatedItem(NamedTuple):
    """A charge or a fee with its bill date and the contract that it is under."""

    bill_date: date
    contract_id: str | None
    item: Record[Charge] | DueFee


class ItemDates:
    """Finds the bills of what has a date of its own, whichever of these a run makes."""

    def __init__(self, calendar: BillingCalendar, identities: BillIdentities) -> None:
        """Begin.

        Args:
            calendar: The days of the run.
            identities: Names bills.
        """
        self.calendar = calendar
        self.identities = identities

    def by_bill(
        self,
        account_id: str,
        plans: Iterable[Record[AccountPlan]],
        due: Iterable[BillIdentity],
        has_lines: Callable[[BillIdentity], bool],
    ) -> Mapping[BillIdentity, BillItems]:
        """What an account is charged by date, by the bills of the run's days on which it stands.

        Args:
            account_id: The account.
            plans: Those that are billed to it.
            due: The bills of its plans with the days of the run.
            has_lines: Whether one of these is due in any case.
        """
        found: dict[BillIdentity, BillItems] = defaultdict(BillItems)
        items = list(self._items(account_id, list(plans)))
        if not items:
            return found
        # Of several bills of a date, an item joins the one with the shortest period.
        shortest = sorted(due, key=lambda each: each.rank)
        for bill_date, contract_id, item in items:
            group = self.identities.grouping_key(contract_id)
            same = (each for each in shortest if each[1::3] == (bill_date, group))
            key = next(filter(has_lines, same), None)
            if key is None and self.is_made(bill_date):
                key = self.identities.without_plan(account_id, bill_date, contract_id)
            if key is not None:
                found[key].add(item)
        return found

    def _items(self, account_id: str, plans: Iterable[Record[AccountPlan]]) -> Iterator[_DatedItem]:
        configuration = self.calendar.configuration
        for record in configuration.where(Charge, "account_id", account_id):
            bill_date = self._bill_date(record.entity, plans)
            yield _DatedItem(bill_date, record.entity.contract_id, record)
        for commitment in configuration.where(Commitment, "account_id", account_id):
            for number, fee in enumerate(dated_instalments(commitment.entity.fee_dates)):
                item = DueFee(commitment, fee, number)
                yield _DatedItem(fee.bill_date, commitment.entity.contract_id, item)

    def _bill_date(self, charge: Charge, plans: Iterable[Record[AccountPlan]]) -> date:
        """Its own bill date, else the first one of its bills on or after the end of its service."""
        if charge.bill_date is not None:
            return charge.bill_date
        last_instant = charge.service_period_end_date - timedelta(microseconds=1)
        end = local_date(last_instant, self.calendar.zone) + _ONE_DAY
        group = self.identities.grouping_key(charge.contract_id)
        found = (
            self.calendar.bill_date_from(plan.entity, end)
            for plan in plans
            if self.identities.grouping_key(plan.entity.contract_id) == group
        )
        return min((each for each in found if each is not None), default=end)

    def is_made(self, bill_date: date) -> bool:
        """Whether the run makes bills of a date that no plan has."""
        days = self.calendar.days
        open_day = self.calendar.open_day
        after = days.after if open_day is None else max(days.after, open_day + _ONE_DAY)
        return days.first < bill_date <= after
