"""The step of counters: what is charged by how many there are.

The running total is the number that is carried into the time of a plan, its pricing and a billing
period; each later change within it is an adjustment, always in arrears.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import BandUsage, LineItemType
from meterlake.model.catalog.counters import CounterAdjustment, CounterPricing
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.scopes.plan_fields import plan_ids_of
from meterlake.model.values.money import ZERO, divide, exact
from meterlake.model.values.period import Period, first_day, midnight, share
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    LineAmount,
    LineDraft,
    LinePlace,
    LineSubject,
    sort_lines,
)
from meterlake.stages.bill.periods.service_periods import ServicePeriod
from meterlake.stages.bill.pricing import rate
from meterlake.stages.bill.pricing.applicable_pricing import ApplicableCounterPricing
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.terms import PlanPeriod

RUNNING_TOTAL: Final = "Counter Running Total Charge"
DEBIT: Final = "Counter Adjustment Debit"
CREDIT: Final = "Counter Adjustment Credit"


def counter_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge for the counters of the plans."""
    for plan_period in draft.bill.plan_periods:
        found = [
            *running_totals(draft, plan_period),
            *_adjustments(draft, plan_period),
        ]
        yield from sort_lines(found)


def counter_amounts(
    draft: BillDraft, plan_period: PlanPeriod
) -> Iterator[tuple[LineDraft, Decimal]]:
    """What the counters of a plan cost in the service periods that end with the bill.

    It is what their lines come to, whether they stand on this bill or, in advance, on an earlier one.
    """
    services = list(plan_period.time.services(in_advance=False))
    totals = (each for service in services for each in _of_service(draft, plan_period, service))
    lines = (_running_total(draft, each) for each in totals)
    for drafted in (*filter(None, lines), *_adjustments(draft, plan_period)):
        yield drafted, draft.amount_to_pay(drafted.charged.amount, plan_period.terms.currency)


class CounterChange(NamedTuple):
    """From which number to which a counter changed."""

    before: Decimal
    after: Decimal


class _Window(NamedTuple):
    """A counter's pricing in the part of a service period in which it applies to a plan."""

    plan_period: PlanPeriod
    applicable: ApplicableCounterPricing
    active: Period
    whole: Period

    @property
    def pricing(self) -> CounterPricing:
        return self.applicable.pricing.entity


@dataclass(frozen=True, slots=True)
class _Values:
    """The numbers of a counter that an account has, from which day on: one for a day, in order."""

    changes: Sequence[tuple[date, Decimal]]

    def on(self, day: date) -> Decimal | None:
        """The number at the end of a day; None if it was never said."""
        return next((value for changed, value in reversed(self.changes) if changed <= day), None)


def running_totals(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    """The running totals of a plan that stand on a bill, those in advance and the others."""
    yield from filter(None, (_running_total(draft, each) for each in _due(draft, plan_period)))


def _due(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[_Window]:
    """The windows whose running totals stand on a bill."""
    time = plan_period.time
    for in_arrears, services in zip((True, False), time.begun, strict=True):
        for service in services:
            for window in _of_service(draft, plan_period, service):
                in_advance = window.pricing.running_total_bill_in_advance
                if time.begins_with_bill(window.active.start) if in_advance else in_arrears:
                    yield window


def _of_service(
    draft: BillDraft, plan_period: PlanPeriod, service: ServicePeriod
) -> Iterator[_Window]:
    plan_id = plan_period.terms.plan.id
    terms = draft.inputs.catalog.terms(plan_id, service.whole)
    for applicable in terms.counter_pricings:
        period = applicable.period
        active = service.active.intersection(period.start, period.end)
        if active is not None:
            yield _Window(plan_period, applicable, active, service.whole)


def _running_total(draft: BillDraft, window: _Window) -> LineDraft | None:
    value = _values(draft, window).on(first_day(window.active.start, draft.inputs.zone))
    if not value:
        return None
    days = share(window.active, window.whole, draft.inputs.zone)
    if not days[0]:
        return None
    if not window.pricing.pro_rate_running_total:
        if not _is_first(draft, window):
            return None
        days = (1, 1)
    bands = _price(window.pricing, value)
    drafted = _draft_amount(
        window, LineItemType.COUNTER_RUNNING_TOTAL_CHARGE, value, rate.amount(bands), days
    )
    if drafted is None:
        return None
    return drafted._replace(charged=drafted.charged._replace(bands=bands))


def _is_first(draft: BillDraft, window: _Window) -> bool:
    """Whether no other plan of the product, nor another pricing, has the counter before in the period."""
    plan_period, pricing = window.plan_period, window.applicable.pricing
    own = (plan_period.account_plan.id, plan_period.terms.plan.id, pricing.id)
    # When which plans of the account, on whichever bill, have the counter in the same period.
    alike: list[tuple[Any, ...]] = []
    configuration, whole = draft.inputs.configuration, window.whole
    account_id = window.plan_period.account_plan.entity.account_id
    calendar = window.plan_period.time.calendar
    for record in configuration.where(AccountPlan, "account_id", account_id):
        active = whole.intersection(*calendar.time_of(record.entity))
        if active is None or not calendar.has_regular_period(record.entity, whole):
            continue
        for number, plan_id in enumerate(plan_ids_of(record.entity, configuration)):
            for start, pricing_id in _starts(draft, window, plan_id, active):
                order = (start, record.entity.start_date, record.created, number)
                alike.append((*order, record.id, plan_id, pricing_id))
    first = min(alike, default=None)
    return first is None or (first[0], *first[-3:]) == (window.active.start, *own)


def _starts(
    draft: BillDraft, window: _Window, plan_id: str, active: Period
) -> Iterator[tuple[datetime, str]]:
    """When pricings of a plan of the same product begin to have the counter."""
    terms = draft.inputs.catalog.terms(plan_id, window.whole)
    if terms.product.id != window.plan_period.terms.product.id:
        return
    for applicable in terms.counter_pricings:
        if applicable.counter.id == window.applicable.counter.id:
            part = active.intersection(applicable.period.start, applicable.period.end)
            if part is not None and share(part, window.whole, draft.inputs.zone)[0]:
                yield part.start, applicable.pricing.id


def _adjustments(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    """The changes of counters within the service periods that end with the bill."""
    for service in plan_period.time.services(in_advance=False):
        for window in _of_service(draft, plan_period, service):
            zone, values = draft.inputs.zone, _values(draft, window)
            first, after = (
                first_day(each, zone) for each in (window.active.start, window.active.end)
            )
            before = values.on(first) or ZERO
            for day, value in values.changes:
                # Of the day on which a plan ends, what follows it carries the number.
                if first < day < after and value != before:
                    drafted = _change(draft, window, midnight(day, zone), (before, value))
                    before = value
                    if drafted is not None:
                        yield drafted


def _change(
    draft: BillDraft, window: _Window, start: datetime, values: tuple[Decimal, Decimal]
) -> LineDraft | None:
    rises = values[1] > values[0]
    pricing = window.pricing
    prorated = pricing.pro_rate_adjustment_debit if rises else pricing.pro_rate_adjustment_credit
    left = Period(start, window.active.end)
    days = share(left, window.whole, draft.inputs.zone) if prorated else (1, 1)
    kind = (
        LineItemType.COUNTER_ADJUSTMENT_DEBIT if rises else LineItemType.COUNTER_ADJUSTMENT_CREDIT
    )
    old, new = (rate.amount(_price(pricing, each)) for each in values)
    with exact():
        amount, changed = new - old, values[1] - values[0]
    window = window._replace(active=left)
    drafted = _draft_amount(window, kind, changed, amount, days)
    return None if drafted is None else drafted._replace(basis=CounterChange(*values))


def _price(pricing: CounterPricing, value: Decimal) -> tuple[BandUsage, ...]:
    return rate.price_units(value, value, pricing.pricing_bands, pricing.cumulative)


def _values(draft: BillDraft, window: _Window) -> _Values:
    """The numbers of the account on the plan, or those of its pool, added up."""
    counter_id, pool = window.applicable.counter.id, window.plan_period.pool
    if pool is None:
        account_id = window.plan_period.account_plan.entity.account_id
        return _Values(_changes_of(draft, account_id, counter_id))
    deltas: dict[date, Decimal] = defaultdict(lambda: ZERO)
    for member in pool.members:
        before = ZERO
        # The numbers with which an account counts in a pool; 0 while it is no member.
        changes_of_member: list[tuple[date, Decimal]] = []
        values = _Values(_changes_of(draft, member.account.id, counter_id))
        for first, after in member.days(draft.inputs.zone):
            if first < after:
                changes_of_member.append((first, values.on(first) or ZERO))
                changes_of_member += (each for each in values.changes if first < each[0] < after)
                changes_of_member.append((after, ZERO))
        for day, value in changes_of_member:
            with exact():
                deltas[day] += value - before
            before = value
    days = sorted(deltas)
    with exact():
        return _Values(list(zip(days, accumulate(deltas[day] for day in days), strict=True)))


def _changes_of(draft: BillDraft, account_id: str, counter_id: str) -> list[tuple[date, Decimal]]:
    found = draft.inputs.configuration.where(CounterAdjustment, "account_id", account_id)
    changes = (
        (each.entity.date, Decimal(each.entity.value))
        for each in found
        if each.entity.counter_id == counter_id
    )
    return sorted(changes, key=itemgetter(0))


def _draft_amount(
    window: _Window, kind: LineItemType, value: Decimal, amount: Decimal, days: tuple[int, int]
) -> LineDraft | None:
    """A line of a counter; None if it comes to nothing."""
    if not amount or not days[0]:
        return None
    counter = window.applicable.counter
    with exact():
        prorated = Amount(amount * days[0], days[1])
    return LineDraft(
        type=kind,
        description=window.pricing.description or _DESCRIPTIONS[kind],
        service_period=window.active,
        charged=LineAmount(
            prorated, counter.entity.unit, value, value, average_unit_price=divide(amount, value)
        ),
        accounting_product=window.applicable.accounting_product,
        subject=LineSubject(counter.id, pricing_id=window.applicable.pricing.id),
        plan_period=window.plan_period,
        place=LinePlace(window.applicable.order),
        pins={
            "pricing_version": window.applicable.pricing.version,
            "active_days": days[0],
            "period_days": days[1],
        },
        members={"counterId": counter.id},
    )


_DESCRIPTIONS: Final = {
    LineItemType.COUNTER_RUNNING_TOTAL_CHARGE: RUNNING_TOTAL,
    LineItemType.COUNTER_ADJUSTMENT_DEBIT: DEBIT,
    LineItemType.COUNTER_ADJUSTMENT_CREDIT: CREDIT,
}
