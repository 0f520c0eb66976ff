"""The step of minimum spends: what is missing to the least that a pricing or a plan costs.

A minimum covers the lines of its own service period. In arrears, what is missing stands on the bill
at the end. In advance, the whole minimum stands on the bill at the beginning, and the bill at the
end gives back what the lines have covered of it: so both come to max(usage, minimum).

A plan's minimum counts that of a pricing as what it adds to the lines of this pricing, whether in
advance or not.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from meterlake.model.billing import LineItemType, ProductName
from meterlake.model.money import ONE, ZERO, exact
from meterlake.model.period import Period, share
from meterlake.stages.bill.applicable_pricing import PlanTerms
from meterlake.stages.bill.counter_charges import counter_amounts
from meterlake.stages.bill.currencies import Amount
from meterlake.stages.bill.line_draft import BillDraft, LineDraft
from meterlake.stages.bill.service_periods import ServicePeriod
from meterlake.stages.bill.terms import PlanPeriod

UNIT: Final = "minimum spend"


class Minimum(NamedTuple):
    """A minimum spend of a pricing or a plan.

    Attributes:
        amount: What it is for a whole billing period, in the currency of the plan.
        window: The time in which the pricing applies; None of a plan, which has the plan's time.
        subject: The aggregation that the pricing is for.
    """

    amount: Decimal
    description: str
    in_advance: bool
    accounting_product: ProductName
    window: Period | None = None
    subject: str | None = None
    pricing_id: str | None = None


def minimum_spends(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge what is missing to minimum spends, or give back what was charged in advance."""
    for plan_period in draft.bill.plan_periods:
        yield from _assess(draft, plan_period)
        yield from _charge_in_advance(draft, plan_period)


def _assess(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    """The minimums of the service periods that end with the bill, against their lines."""
    services = list(plan_period.time.services(in_advance=False))
    if not services:
        return
    terms, topped_up = plan_period.terms, ZERO
    for minimum in _of_pricings(terms):
        assessed = _Assessed.of(draft, plan_period, services, minimum)
        covered = _usage(draft, plan_period, minimum)
        topped_up += max(assessed.amount - covered, ZERO)
        yield from assessed.lines(plan_period, covered)
    plan_minimum = _of_plan(terms)
    if plan_minimum is not None:
        counters = sum(counter_amounts(draft, plan_period), ZERO)
        covered = max(_usage(draft, plan_period) + counters + topped_up, ZERO)
        assessed = _Assessed.of(draft, plan_period, services, plan_minimum)
        yield from assessed.lines(plan_period, covered)


def _charge_in_advance(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    """The minimums of the service periods that begin with the bill, whole."""
    for service in plan_period.time.services(in_advance=True):
        terms = draft.inputs.catalog.terms(plan_period.terms.plan.id, service.whole)
        for minimum in (*_of_pricings(terms), *filter(None, [_of_plan(terms)])):
            if minimum.in_advance:
                assessed = _Assessed.of(draft, plan_period, [service], minimum)
                yield from assessed.charge(plan_period, assessed.amount)


def _of_plan(terms: PlanTerms) -> Minimum | None:
    if not terms.minimum_spend:
        return None
    return Minimum(
        amount=terms.minimum_spend,
        description=terms.minimum_spend_description,
        in_advance=terms.minimum_spend_in_advance,
        accounting_product=terms.minimum_spend_product,
    )


def _of_pricings(terms: PlanTerms) -> Iterator[Minimum]:
    for applicable in terms.applicable_pricings:
        pricing = applicable.pricing.entity
        if pricing.minimum_spend:
            name = applicable.aggregation.entity.name
            yield Minimum(
                amount=pricing.minimum_spend,
                description=pricing.minimum_spend_description or f"{name} Minimum Spend Adjustment",
                in_advance=pricing.minimum_spend_bill_in_advance,
                accounting_product=applicable.accounting_product,
                window=applicable.period,
                subject=applicable.aggregation.id,
                pricing_id=applicable.pricing.id,
            )


class _Assessed(NamedTuple):
    """A minimum for some service periods.

    Attributes:
        period: From the begin of the first to the end of the last.
        amount: What it comes to by the days in which it holds, as a line on the bill would.
    """

    minimum: Minimum
    period: Period
    amount: Decimal
    currency: str

    @classmethod
    def of(
        cls,
        draft: BillDraft,
        plan_period: PlanPeriod,
        services: Sequence[ServicePeriod],
        minimum: Minimum,
    ) -> "_Assessed":
        held = [each for each in (_within(service, minimum) for service in services) if each]
        parts = (Fraction(*share(each.active, each.whole, draft.inputs.zone)) for each in held)
        days = sum(parts, Fraction(0))
        with exact():
            amount = Amount(minimum.amount * days.numerator, days.denominator)
        start = held[0].active.start if held else services[0].active.end
        end = held[-1].active.end if held else start
        to_pay = draft.amount_to_pay(amount, plan_period.terms.currency)
        return cls(minimum, Period(start, end), to_pay, draft.currency)

    def lines(self, plan_period: PlanPeriod, covered: Decimal) -> Iterator[LineDraft]:
        """What is missing, or, in advance, what comes back."""
        if self.minimum.in_advance:
            back = -min(covered, self.amount)
            yield from self._line(plan_period, LineItemType.MINIMUM_SPEND_REFUND, back)
        else:
            yield from self.charge(plan_period, max(self.amount - covered, ZERO))

    def charge(self, plan_period: PlanPeriod, amount: Decimal) -> Iterator[LineDraft]:
        """A line that adds an amount."""
        yield from self._line(plan_period, LineItemType.MINIMUM_SPEND, amount)

    def _line(
        self, plan_period: PlanPeriod, kind: LineItemType, amount: Decimal
    ) -> Iterator[LineDraft]:
        if amount:
            yield LineDraft(
                type=kind,
                description=self.minimum.description,
                service_period=self.period,
                quantity=ONE,
                units=ONE,
                unit=UNIT,
                amount=Amount(amount),
                currency=self.currency,
                accounting_product=self.minimum.accounting_product,
                plan_period=plan_period,
                subject=self.minimum.subject,
                aggregation_id=self.minimum.subject,
                pricing_id=self.minimum.pricing_id,
            )


def _within(service: ServicePeriod, minimum: Minimum) -> ServicePeriod | None:
    """The part of a service period in which a minimum holds."""
    if minimum.window is None:
        return service
    active = service.active.intersection(minimum.window.start, minimum.window.end)
    return None if active is None else ServicePeriod(active, service.whole)


def _usage(draft: BillDraft, plan_period: PlanPeriod, minimum: Minimum | None = None) -> Decimal:
    """The usage lines of a plan, or of the pricing of a minimum in its window; not below 0."""
    found = (each for each in draft.lines if each.draft.plan_period is plan_period)
    lines = (each for each in found if each.line.type is LineItemType.USAGE)
    if minimum is not None:
        lines = (each for each in lines if _is_of(each.draft, minimum))
    return max(sum((each.amount for each in lines), ZERO), ZERO)


def _is_of(drafted: LineDraft, minimum: Minimum) -> bool:
    assert minimum.window is not None
    start = drafted.service_period.start
    return drafted.pricing_id == minimum.pricing_id and start in minimum.window
