"""On which bill stands what has a date of its own or comes with a plan: single charges and fees.

They join a bill that is due by configuration, else they make one of their own.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, timedelta
from typing import Final, NamedTuple

from meterlake.model.bills.billing_dates import LAST_FIRST_BILL
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment
from meterlake.model.scopes.plan_fields import plan_ids_of
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Period, local_date, midnight
from meterlake.stages.bill.periods.due_periods import (
    BillIdentity,
    BillingCalendar,
    BillingPeriod,
    own_time,
)
from meterlake.stages.bill.periods.selection import BillIdentities
from meterlake.stages.bill.periods.service_periods import Every
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.terms.advance_lines import AdvanceMemo
from meterlake.stages.bill.terms.commitment_fees import (
    FeeTerms,
    Instalment,
    PlanSpan,
    dated_instalments,
    plan_instalments,
)

_MOMENT: Final = timedelta(microseconds=1)
_NEVER: Final = midnight(LAST_FIRST_BILL, UTC)
_ONE_DAY: Final = timedelta(days=1)


class DueFee(NamedTuple):
    """A fee of a commitment on a bill.

    Attributes:
        number: Which of the commitment's fee dates it is, from 0; None if it is billed with a plan.
    """

    commitment: Record[Commitment]
    fee: Instalment
    number: int | None = None


class PlanFee(NamedTuple):
    """A fee with the account plan on whose bill of which period it stands."""

    account_plan: Record[AccountPlan]
    period: BillingPeriod
    due: DueFee


class FeesWithPlans:
    """Finds the fees that stand on bills of plans."""

    def __init__(self, calendar: BillingCalendar) -> None:
        """Begin.

        Args:
            calendar: The days of the run.
        """
        self.calendar = calendar
        self.configuration = calendar.configuration
        self.currencies = Currencies.of(calendar.configuration, calendar.organization)

    def of_account(
        self,
        account_id: str,
        plans: Iterable[Record[AccountPlan]],
        due: Iterable[tuple[Record[AccountPlan], BillingPeriod]],
    ) -> Iterator[PlanFee]:
        """The fees of an account's commitments on those bills of plans that are due.

        Args:
            account_id: The account that is billed.
            plans: All account plans that are billed to it, whenever they hold.
            due: Those with a bill of the run.
        """
        plans, due = list(plans), list(due)
        for commitment in self.configuration.where(Commitment, "account_id", account_id):
            plan_id = commitment.entity.billing_plan_id
            if plan_id is not None:
                yield from self._of_commitment(
                    commitment,
                    [
                        each
                        for each in plans
                        if plan_id in plan_ids_of(each.entity, self.configuration)
                    ],
                    [
                        each
                        for each in due
                        if plan_id in plan_ids_of(each[0].entity, self.configuration)
                    ],
                )

    def _of_commitment(
        self,
        commitment: Record[Commitment],
        plans: Iterable[Record[AccountPlan]],
        due: Sequence[tuple[Record[AccountPlan], BillingPeriod]],
    ) -> Iterator[PlanFee]:
        dates = {period.bill_date for _, period in due}
        if not dates:
            return
        spans = [span for each in plans for span in self._spans(each)]
        organization, zone = self.calendar.organization, self.calendar.zone
        in_advance = commitment.entity.commitment_fee_bill_in_advance
        if in_advance is None:
            in_advance = organization.commitment_fee_bill_in_advance
        terms = FeeTerms(
            time=Period(
                midnight(commitment.entity.start_date, zone),
                midnight(commitment.entity.end_date, zone),
            ),
            amount=commitment.entity.amount,
            places=self.currencies.rounding(commitment.entity.currency)[0],
            pre_paid=commitment.entity.amount_pre_paid or ZERO,
            first_bill=commitment.entity.amount_first_bill or ZERO,
            in_advance=in_advance,
            every=Every(
                commitment.entity.billing_interval or 1, commitment.entity.billing_offset or 0
            ),
            bill_epoch=commitment.entity.bill_epoch,
        )
        for fee in plan_instalments(terms, spans, self.calendar.zone):
            if fee.bill_date in dates:
                yield PlanFee(*self._bill_of(fee, due), DueFee(commitment, fee))

    def _bill_of(
        self, fee: Instalment, due: Iterable[tuple[Record[AccountPlan], BillingPeriod]]
    ) -> tuple[Record[AccountPlan], BillingPeriod]:
        """Of the plan's bills of its date, that of who holds last in its time, else the latest."""
        found = [each for each in due if each[1].bill_date == fee.bill_date]
        last = max(fee.service_period.end - _MOMENT, fee.service_period.start)

        def order(each: tuple[Record[AccountPlan], BillingPeriod]) -> tuple[object, ...]:
            start, end = own_time(each[0].entity)
            holds = start <= last and (end is None or last < end)
            return holds, start, each[0].created, each[0].id

        return max(found, key=order)

    def _spans(self, account_plan: Record[AccountPlan]) -> Iterator[PlanSpan]:
        cycle = self.calendar.cycle_of(account_plan.entity)
        start, end = own_time(account_plan.entity)
        first, after = self.calendar.time_of(account_plan.entity)
        if cycle is not None and first < (after or _NEVER):
            limited = (start, end) != (first, after)
            limit = Period(first, after or _NEVER) if limited else None
            yield PlanSpan(Period(start, end or _NEVER), cycle, limit)


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
            # Its own bill date, else the first one of its bills on or after the end of
            # its service.
            if record.entity.bill_date is not None:
                bill_date = record.entity.bill_date
            else:
                last_instant = record.entity.service_period_end_date - timedelta(microseconds=1)
                end = local_date(last_instant, self.calendar.zone) + _ONE_DAY
                group = self.identities.grouping_key(record.entity.contract_id)
                found = (
                    self.calendar.bill_date_from(plan.entity, end)
                    for plan in plans
                    if self.identities.grouping_key(plan.entity.contract_id) == group
                )
                bill_date = min((each for each in found if each is not None), default=end)
            yield _DatedItem(bill_date, record.entity.contract_id, record)
        for commitment in configuration.where(Commitment, "account_id", account_id):
            for number, fee in enumerate(dated_instalments(commitment.entity.fee_dates)):
                item = DueFee(commitment, fee, number)
                yield _DatedItem(fee.bill_date, commitment.entity.contract_id, item)

    def is_made(self, bill_date: date) -> bool:
        """Whether the run makes bills of a date that no plan has."""
        days = self.calendar.days
        open_day = self.calendar.open_day
        after = days.after if open_day is None else max(days.after, open_day + _ONE_DAY)
        return days.first < bill_date <= after
