"""The fees of a commitment: what is billed of its amount, for which time and on which bill date.

With a billing plan, fee periods are the commitment's time in which an account plan of that plan
holds. They form groups as in `service_periods`, and stand on the bills of the plan; what is left of
the amount is split over them, full ones equally and partial ones by days, so that the fees add up
to it. On a schedule, every fee date is a fee.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

from meterlake.model.bills.billing_dates import LAST_FIRST_BILL, BillingCycle
from meterlake.model.calendar.recurrence import Recurrence
from meterlake.model.customers.contracts import CommitmentFee
from meterlake.model.customers.recurring_period import NamedPeriod
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Period, count_days, first_day, local_date, midnight
from meterlake.stages.bill.periods.service_periods import EVERY_BILL, Every
from meterlake.stages.bill.pricing.remainders import decimals, split_by_weights

_MOMENT: Final = timedelta(microseconds=1)


class FeeShare(NamedTuple):
    """How much of what is left of a commitment's amount one fee is.

    Attributes:
        rest: What is split over all fees: the amount without what was paid before, and without what
            the first bill carries.
        weight: How much of a full fee it is.
        weights: What the weights of all fees add up to.
        share: What it is of the rest.
        first: What it carries beside its share, on the first bill.
    """

    rest: Decimal
    weight: Fraction
    weights: Fraction
    share: Decimal
    first: Decimal = ZERO


class Instalment(NamedTuple):
    """One fee.

    Attributes:
        days: The days of the service period that are paid for; with `whole_days` of a full one it
            says how much of a full fee it is. 0 for a fee date.
        split: What of the commitment it is; None for a fee date.
    """

    service_period: Period
    amount: Decimal
    bill_date: date
    days: int = 0
    whole_days: int = 0
    split: FeeShare | None = None


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """What a commitment says of its fees; amounts are in its own currency.

    Attributes:
        time: From its start to its exclusive end.
        places: Decimals of the currency.
        bill_epoch: From where fee periods and their groups are counted; None if the billing periods
            of the plan are the fee periods.
    """

    time: Period
    amount: Decimal
    places: int
    pre_paid: Decimal = ZERO
    first_bill: Decimal = ZERO
    in_advance: bool = False
    every: Every = EVERY_BILL
    bill_epoch: date | None = None


class PlanSpan(NamedTuple):
    """When an account plan of the billing plan holds; `end` is exclusive.

    Attributes:
        limit: The part of it that its contract lets be charged; all if None.
    """

    period: Period
    cycle: BillingCycle
    limit: Period | None = None


def plan_instalments(terms: FeeTerms, spans: Iterable[PlanSpan], tz: tzinfo) -> list[Instalment]:
    """The fees of a commitment with a billing plan, in the order of their bills and periods.

    They add up to what was not paid before, whichever part of the commitment's time the plan holds
    for. There is none if it holds for no part of it.

    Args:
        terms: What the commitment says.
        spans: When account plans of the billing plan hold; in any order.
        tz: The time zone of days.
    """
    # Account plans may overlap. Cents go to the earlier fee.
    groups = sorted(
        _groups(terms, spans, tz), key=lambda each: (each.bill_date, each.service_period)
    )
    with exact():
        rest = terms.amount - terms.pre_paid
        first = min(terms.first_bill, rest)
        rest -= first
    weights = [Fraction(each.days, each.whole_days or 1) for each in groups]
    if not groups:
        return []
    shares = split_by_weights(rest, weights, decimals(rest, terms.places))
    total = sum(weights, Fraction(0))
    fees = [
        each._replace(amount=share, split=FeeShare(rest, weight, total, share))
        for each, share, weight in zip(groups, shares, weights, strict=True)
    ]
    paid_for = [each for each, weight in zip(fees, weights, strict=True) if weight] or fees[:1]
    # Charge what the first fee bill carries beside its own share.
    earliest = min(range(len(paid_for)), key=lambda index: (paid_for[index].bill_date, index))
    with exact():
        amount = paid_for[earliest].amount + first
    split = paid_for[earliest].split
    split = split and split._replace(first=first)
    paid_for[earliest] = paid_for[earliest]._replace(amount=amount, split=split)
    return [each for each in paid_for if each.amount]


def dated_instalments(fees: Iterable[CommitmentFee]) -> list[Instalment]:
    """The fees of a commitment with fee dates, in the order of their dates."""
    found = [
        Instalment(
            Period(fee.service_period_start_date, fee.service_period_end_date), fee.amount, fee.date
        )
        for fee in fees
    ]
    return sorted(found, key=lambda each: (each.bill_date, each.service_period))


def _groups(terms: FeeTerms, spans: Iterable[PlanSpan], tz: tzinfo) -> Iterator[Instalment]:
    """The fee periods that are charged at once, without their amounts."""
    for span in _joined(spans):
        charged = span.limit or span.period
        paid = terms.time.intersection(charged.start, charged.end)
        if paid is not None:
            bills = _PlanBills(span, tz)
            yield from _groups_of_span(terms, paid, bills)


def _groups_of_span(terms: FeeTerms, paid: Period, bills: "_PlanBills") -> Iterator[Instalment]:
    """The groups of one span, from the first that is paid for; they are counted from its first."""
    recurrence, first = _counted(terms, bills)
    interval = terms.every.interval
    number = recurrence.number_after(first_day(paid.start, bills.tz)) - 1
    for start in count(first + (number - first) // interval * interval, interval):
        whole = bills.stretch(recurrence, start, interval)
        if whole.start >= paid.end:
            return
        service = whole.intersection(paid.start, paid.end)
        if service is not None:
            target = bills.stretch(recurrence, start + terms.every.offset, 1)
            days, whole_days = (count_days(each, bills.tz) for each in (service, whole))
            if terms.in_advance:
                bill_date = bills.first_from(
                    max(first_day(target.start, bills.tz), first_day(service.start, bills.tz))
                )
            elif terms.every == EVERY_BILL:
                bill_date = bills.with_last_instant(service)
            else:
                bill_date = bills.with_last_instant(target)
            yield Instalment(service, ZERO, bill_date, days, whole_days)


def _counted(terms: FeeTerms, bills: "_PlanBills") -> tuple[Recurrence, int]:
    """How fee periods are counted, and the number of the one that the first group begins with."""
    recurrence = bills.span.cycle.recurrence
    if terms.bill_epoch is not None:
        # Groups are counted from the epoch, too.
        return Recurrence(recurrence.frequency, recurrence.interval, terms.bill_epoch), 0
    return recurrence, recurrence.number_after(first_day(bills.span.period.start, bills.tz)) - 1


class _PlanBills:
    """The bill dates of a plan while an account plan holds."""

    def __init__(self, span: PlanSpan, tz: tzinfo) -> None:
        self.span = span
        self.tz = tz

    def stretch(self, recurrence: Recurrence, number: int, length: int) -> Period:
        """So many periods from the one of a number on, as one."""
        return _stretch(recurrence, number, length, self.tz)

    def with_last_instant(self, service: Period) -> date:
        """The bill of the billing period in which the last instant of a time lies.

        It is the plan's last one if the plan ends before, the first one if it begins later.
        """
        held = self.span.period
        end = min(max(service.end, held.start + _MOMENT), held.end)
        return _containing(self.span.cycle, local_date(end - _MOMENT, self.tz)).after

    def first_from(self, day: date) -> date:
        """The first bill on or after a day; the plan's last one if there is none."""
        found = _containing(self.span.cycle, day)
        # The long first billing period begins without a bill.
        is_bill_date = found.first == day and day != self.span.cycle.begin
        return min(day if is_bill_date else found.after, self._last)

    @property
    def _last(self) -> date:
        if self.span.period.end.date() >= LAST_FIRST_BILL:
            return LAST_FIRST_BILL
        return self.with_last_instant(self.span.period)


# The commitments of an organization have few cycles.
@lru_cache(maxsize=4096)
def _stretch(recurrence: Recurrence, number: int, length: int, tz: tzinfo) -> Period:
    start, end = (recurrence.day(each) for each in (number, number + length))
    return Period(midnight(start, tz), midnight(min(end, LAST_FIRST_BILL), tz))


@lru_cache(maxsize=4096)
def _containing(cycle: BillingCycle, day: date) -> NamedPeriod:
    return cycle.containing(day)


def _joined(spans: Iterable[PlanSpan]) -> list[PlanSpan]:
    """Spans in their order; those that follow each other with the same periods are one.

    What a contract limits is counted by itself, and parts no others.
    """
    found: list[PlanSpan] = []
    for span in sorted(spans, key=lambda each: each.period):
        number = _followed_by(span, found)
        if number is None:
            found.append(span)
            continue
        before = found[number]
        end = max(before.period.end, span.period.end)
        found[number] = PlanSpan(Period(before.period.start, end), before.cycle)
    return found


def _followed_by(span: PlanSpan, found: Sequence[PlanSpan]) -> int | None:
    """The place of the span that another one follows without a gap; None if there is none."""
    for number, each in reversed(list(enumerate(found))):
        same = each.cycle.recurrence == span.cycle.recurrence
        if same and not each.limit and not span.limit and span.period.start <= each.period.end:
            return number
    return None
