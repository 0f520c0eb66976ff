"""Which fees of commitments stand on the bills of the plan with which they are billed."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, timedelta
from typing import Final, NamedTuple

from meterlake.model.bills.billing_cycle import LAST_FIRST_BILL
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.commitments import Commitment
from meterlake.model.scopes.plan_fields import plan_ids_of
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Period, midnight
from meterlake.stages.bill.periods.due import BillingCalendar, BillingPeriod, own_time
from meterlake.stages.bill.periods.service_periods import Every
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.terms.commitment_fees import (
    FeeTerms,
    Instalment,
    PlanSpan,
    plan_instalments,
)

_MOMENT: Final = timedelta(microseconds=1)
_NEVER: Final = midnight(LAST_FIRST_BILL, UTC)


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
        for fee in plan_instalments(self._terms(commitment.entity), spans, self.calendar.zone):
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

    def _terms(self, commitment: Commitment) -> FeeTerms:
        organization, zone = self.calendar.organization, self.calendar.zone
        in_advance = commitment.commitment_fee_bill_in_advance
        if in_advance is None:
            in_advance = organization.commitment_fee_bill_in_advance
        return FeeTerms(
            time=Period(midnight(commitment.start_date, zone), midnight(commitment.end_date, zone)),
            amount=commitment.amount,
            places=self.currencies.rounding(commitment.currency)[0],
            pre_paid=commitment.amount_pre_paid or ZERO,
            first_bill=commitment.amount_first_bill or ZERO,
            in_advance=in_advance,
            every=Every(commitment.billing_interval or 1, commitment.billing_offset or 0),
            bill_epoch=commitment.bill_epoch,
        )
