"""The fees of a commitment: what is billed of its amount, for which time and on which bill date.

With a billing plan, fee periods are the commitment's time in which an account plan of that plan
holds. They form groups as in `service_periods`; what is left of the amount is split over them, full
ones equally and partial ones by days, so that the fees add up to it. On a schedule, every fee date
is a fee.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import count
from typing import NamedTuple

from meterlake.model.billing_cycle import LAST_FIRST_BILL, BillingCycle
from meterlake.model.calendar.recurrence import Recurrence
from meterlake.model.commitments import CommitmentFee
from meterlake.model.money import ZERO, exact
from meterlake.model.period import Period, count_days, first_day, midnight
from meterlake.stages.bill.remainders import decimals, split_by_weights
from meterlake.stages.bill.service_periods import EVERY_BILL, Every


class Instalment(NamedTuple):
    """One fee.

    Attributes:
        days: The days of the service period that are paid for; with `whole_days` of a full one it
            says how much of a full fee it is. 0 for a fee date.
    """

    service_period: Period
    amount: Decimal
    bill_date: date
    days: int = 0
    whole_days: int = 0


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """What a commitment says of its fees; amounts are in its own currency.

    Attributes:
        time: From its start to its exclusive end.
        places: Decimals of the currency.
        bill_epoch: From where fee periods are counted, and the first date of a fee; None if the
            billing periods of the plan are the fee periods.
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
    """When an account plan of the billing plan holds; `end` is exclusive."""

    period: Period
    cycle: BillingCycle


def plan_instalments(terms: FeeTerms, spans: Iterable[PlanSpan], tz: tzinfo) -> list[Instalment]:
    """The fees of a commitment with a billing plan, in the order of their periods.

    They add up to what was not paid before, whichever part of the commitment's time the plan holds
    for. There is none if it holds for no part of it.

    Args:
        terms: What the commitment says.
        spans: When account plans of the billing plan hold; in any order.
        tz: The time zone of days.
    """
    groups = list(_groups(terms, spans, tz))
    with exact():
        rest = terms.amount - terms.pre_paid
        first = min(terms.first_bill, rest)
        rest -= first
    weights = [Fraction(each.days, each.whole_days or 1) for each in groups]
    if not groups:
        return []
    shares = split_by_weights(rest, weights, decimals(rest, terms.places))
    fees = [each._replace(amount=share) for each, share in zip(groups, shares, strict=True)]
    paid_for = [each for each, weight in zip(fees, weights, strict=True) if weight] or fees[:1]
    return _with_first_bill(paid_for, first)


def dated_instalments(fees: Iterable[CommitmentFee]) -> list[Instalment]:
    """The fees of a commitment with fee dates, in the order of their dates."""
    found = [
        Instalment(
            Period(fee.service_period_start_date, fee.service_period_end_date), fee.amount, fee.date
        )
        for fee in fees
    ]
    return sorted(found, key=lambda each: (each.bill_date, each.service_period))


def _with_first_bill(fees: list[Instalment], first: Decimal) -> list[Instalment]:
    """Charge what the first fee bill carries beside its own share."""
    earliest = min(range(len(fees)), key=lambda index: (fees[index].bill_date, index))
    with exact():
        amount = fees[earliest].amount + first
    fees[earliest] = fees[earliest]._replace(amount=amount)
    return [each for each in fees if each.amount]


class _FeePeriod(NamedTuple):
    """One regular period of the billing plan.

    Attributes:
        active: The parts of it that are paid for; none outside of the commitment or the plan.
        planned: Whether the plan holds in it, so that it has bills.
        begun_on: The first bill date on or after its first day.
        billed_on: The bill date of its last instant.
    """

    whole: Period
    active: tuple[Period, ...]
    planned: bool
    begun_on: date
    billed_on: date


def _groups(terms: FeeTerms, spans: Iterable[PlanSpan], tz: tzinfo) -> Iterator[Instalment]:
    """The fee periods that are charged at once, without their amounts."""
    periods = _fee_periods(terms, spans, tz)
    interval = terms.every.interval
    for start in range(0, len(periods), interval):
        group = periods[start : start + interval]
        active = [part for each in group for part in each.active]
        if active:
            yield Instalment(
                Period(active[0].start, active[-1].end),
                ZERO,
                _fee_date(terms, periods, start + terms.every.offset),
                sum(count_days(each, tz) for each in active),
                sum(count_days(each.whole, tz) for each in group),
            )


def _fee_date(terms: FeeTerms, periods: Sequence[_FeePeriod], number: int) -> date:
    """The date of the plan's bill of a number; of its last one if the plan ends before."""
    if number < len(periods) and periods[number].planned:
        due = periods[number]
        return due.begun_on if terms.in_advance else due.billed_on
    return max(each.billed_on for each in periods if each.planned)


def _fee_periods(terms: FeeTerms, spans: Iterable[PlanSpan], tz: tzinfo) -> list[_FeePeriod]:
    """The regular periods from the first that is paid for, as far as groups and bills reach."""
    found: list[_FeePeriod] = []
    paid = [each for each in _joined(spans) if _paid(terms, each.period) is not None]
    for number, span in enumerate(paid, start=1):
        for each in _periods_of_span(terms, span, tz):
            is_enough = number < len(paid) or len(found) >= _reach(found, terms.every)
            if not each.active and is_enough:
                break
            _append(found, each)
    return found


def _append(periods: list[_FeePeriod], new: _FeePeriod) -> None:
    """Add a period; one that is there already, of an account plan before, has more parts now."""
    if periods and periods[-1].whole == new.whole:
        new = new._replace(active=periods.pop().active + new.active)
    periods.append(new)


def _reach(periods: Sequence[_FeePeriod], every: Every) -> int:
    """How many periods the last group and its bill need."""
    paid_for = [index for index, each in enumerate(periods) if each.active]
    last = paid_for[-1] if paid_for else 0
    return last // every.interval * every.interval + max(every.interval, every.offset + 1)


def _periods_of_span(terms: FeeTerms, span: PlanSpan, tz: tzinfo) -> Iterator[_FeePeriod]:
    """The regular periods of a span from the first that is paid for, and those that follow."""
    paid = _paid(terms, span.period)
    assert paid is not None, span
    recurrence, first_bill = _counted(terms, span, paid, tz)
    for number in count(recurrence.number_after(first_day(paid.start, tz)) - 1):
        begin, after = recurrence.day(number), recurrence.day(number + 1)
        if after > LAST_FIRST_BILL:
            return
        whole = Period(midnight(begin, tz), midnight(after, tz))
        active = whole.intersection(paid.start, paid.end)
        begun = active is None or first_day(active.start, tz) <= begin
        yield _FeePeriod(
            whole,
            () if active is None else (active,),
            whole.intersection(span.period.start, span.period.end) is not None,
            max(begin if begun else after, first_bill),
            max(after, first_bill),
        )


def _counted(terms: FeeTerms, span: PlanSpan, paid: Period, tz: tzinfo) -> tuple[Recurrence, date]:
    """How the periods of a span are counted, and the first date on which there is a bill."""
    cycle = span.cycle
    if terms.bill_epoch is not None:
        plan = cycle.recurrence
        recurrence = Recurrence(plan.frequency, plan.interval, terms.bill_epoch)
        cycle = BillingCycle.from_first_bill(recurrence, paid.start, tz)
    if cycle.begin is None:
        return cycle.recurrence, date.min
    return cycle.recurrence, min(cycle.recurrence.anchor, LAST_FIRST_BILL)


def _paid(terms: FeeTerms, span: Period) -> Period | None:
    """The part of a commitment's time in which an account plan holds."""
    return terms.time.intersection(span.start, span.end)


def _joined(spans: Iterable[PlanSpan]) -> list[PlanSpan]:
    """Spans in their order; those that follow each other with the same periods are one."""
    found: list[PlanSpan] = []
    for span in sorted(spans, key=lambda each: each.period):
        last = found[-1] if found else None
        same = last is not None and last.cycle.recurrence == span.cycle.recurrence
        if last is not None and same and span.period.start <= last.period.end:
            end = max(last.period.end, span.period.end)
            found[-1] = PlanSpan(Period(last.period.start, end), last.cycle)
        else:
            found.append(span)
    return found
