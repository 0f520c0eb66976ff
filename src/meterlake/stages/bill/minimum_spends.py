"""The step of minimum spends: what is missing to the least that a pricing or a plan costs.

A minimum covers the lines of its own service period. In arrears, what is missing stands on the bill
at the end. In advance, the whole minimum stands on the bill at the beginning, and the bill at the
end gives back what the lines have covered of it: so both come to max(usage, minimum).

A higher minimum counts a lower one as what it adds to the lines of this one, whether in advance or
not: a plan's that of a pricing, a plan group's those of its plans.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from meterlake.model.billing import NO_MEMBERS, LineItemType, ProductName
from meterlake.model.money import ONE, ZERO, exact
from meterlake.model.period import Period, share
from meterlake.stages.bill.applicable_pricing import PlanTerms
from meterlake.stages.bill.counter_charges import counter_amounts
from meterlake.stages.bill.currencies import Amount
from meterlake.stages.bill.line_draft import NOTHING, BillDraft, LineDraft
from meterlake.stages.bill.service_periods import ServicePeriod
from meterlake.stages.bill.terms import PlanPeriod

UNIT: Final = "minimum spend"


class Minimum(NamedTuple):
    """A minimum spend of a pricing, a plan or a plan group.

    Attributes:
        amount: What it is for a whole billing period, in `currency`.
        owner: The plan that it belongs to, or one of the plan group.
        window: The time in which the pricing applies; None where it is the time of the plan.
        subject: The aggregation that the pricing is for.
        members: The members of its lines by wire name.
        aggregation_id: The same as the subject if it is a simple one.
        metric: The members of its lines that name what the pricing is for.
    """

    amount: Decimal
    currency: str
    description: str
    in_advance: bool
    accounting_product: ProductName | None
    owner: PlanPeriod
    window: Period | None = None
    subject: str | None = None
    aggregation_id: str | None = None
    metric: Mapping[str, Any] = NO_MEMBERS
    pricing_id: str | None = None
    members: Mapping[str, str] = NOTHING

    def attribute(self, drafted: LineDraft) -> LineDraft:
        """A line of the minimum, with what charges it."""
        if self.members:
            return drafted._replace(account_plan=self.owner.account_plan, members=self.members)
        return drafted._replace(plan_period=self.owner)


def minimum_spends(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge what is missing to minimum spends, or give back what was charged in advance."""
    covered: dict[int, Decimal] = {}
    for plan_period in draft.bill.plan_periods:
        assessment = _assess_plan(draft, plan_period)
        covered[id(plan_period)] = assessment.covered
        yield from assessment.lines
        yield from _charge_in_advance(draft, plan_period)
    for plan_periods in draft.plans_of_groups():
        total = sum((covered[id(each)] for each in plan_periods), ZERO)
        yield from _assess_group(draft, plan_periods[0], total)


class _Assessment(NamedTuple):
    """What the minimums of a plan come to.

    Attributes:
        covered: What its usage, its counters and what its minimums add come to.
    """

    covered: Decimal
    lines: list[LineDraft]


def _assess_plan(draft: BillDraft, plan_period: PlanPeriod) -> _Assessment:
    """The minimums of the service periods that end with the bill, against their lines."""
    services = list(plan_period.time.services(in_advance=False))
    lines: list[LineDraft] = []
    covered = max(_usage(draft, plan_period) + sum(counter_amounts(draft, plan_period), ZERO), ZERO)
    if not services:
        return _Assessment(covered, lines)
    for minimum in _of_pricings(plan_period.terms, plan_period):
        assessed = _Assessed.of(draft, services, minimum)
        used = _usage(draft, plan_period, minimum)
        covered += max(assessed.amount - used, ZERO)
        lines += assessed.lines(used)
    for minimum in _of_plan(plan_period.terms, plan_period):
        assessed = _Assessed.of(draft, services, minimum)
        lines += assessed.lines(covered)
        covered = max(covered, assessed.amount)
    return _Assessment(covered, lines)


def _assess_group(
    draft: BillDraft, plan_period: PlanPeriod, covered: Decimal
) -> Iterator[LineDraft]:
    """The minimum of a plan group, against all that its plans come to."""
    services = list(plan_period.time.services(in_advance=False))
    for minimum in _of_group(plan_period):
        if services:
            yield from _Assessed.of(draft, services, minimum).lines(covered)
        if minimum.in_advance:
            for service in plan_period.time.services(in_advance=True):
                yield from _Assessed.of(draft, [service], minimum).charge()


def _charge_in_advance(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    """The minimums of the service periods that begin with the bill, whole."""
    for service in plan_period.time.services(in_advance=True):
        terms = draft.inputs.catalog.terms(plan_period.terms.plan.id, service.whole)
        for minimum in (*_of_pricings(terms, plan_period), *_of_plan(terms, plan_period)):
            if minimum.in_advance:
                yield from _Assessed.of(draft, [service], minimum).charge()


def _of_group(plan_period: PlanPeriod) -> Iterator[Minimum]:
    group = plan_period.group
    if group is not None and group.minimum_spend:
        yield Minimum(
            amount=group.minimum_spend,
            currency=group.currency,
            description=group.minimum_spend_description,
            in_advance=group.minimum_spend_in_advance,
            accounting_product=group.minimum_spend_product,
            owner=plan_period,
            members={"planGroupId": group.group.id},
        )


def _of_plan(terms: PlanTerms, owner: PlanPeriod) -> Iterator[Minimum]:
    if terms.minimum_spend:
        yield Minimum(
            amount=terms.minimum_spend,
            currency=terms.currency,
            description=terms.minimum_spend_description,
            in_advance=terms.minimum_spend_in_advance,
            accounting_product=terms.minimum_spend_product,
            owner=owner,
        )


def _of_pricings(terms: PlanTerms, owner: PlanPeriod) -> Iterator[Minimum]:
    for applicable in terms.applicable_pricings:
        pricing = applicable.pricing.entity
        if pricing.minimum_spend:
            name = applicable.aggregation.entity.name
            yield Minimum(
                amount=pricing.minimum_spend,
                currency=terms.currency,
                description=pricing.minimum_spend_description or f"{name} Minimum Spend Adjustment",
                in_advance=pricing.minimum_spend_bill_in_advance,
                accounting_product=applicable.accounting_product,
                owner=owner,
                window=applicable.period,
                subject=applicable.aggregation.id,
                aggregation_id=None if applicable.is_compound else applicable.aggregation.id,
                metric=applicable.members,
                pricing_id=applicable.pricing.id,
            )


class _Assessed(NamedTuple):
    """A minimum for some service periods.

    Attributes:
        period: From the begin of the first to the end of the last.
        amount: What it comes to by the days in which it holds, as a line on the bill would.
        currency: The billing currency.
    """

    minimum: Minimum
    period: Period
    amount: Decimal
    currency: str

    @classmethod
    def of(
        cls, draft: BillDraft, services: Sequence[ServicePeriod], minimum: Minimum
    ) -> "_Assessed":
        held = [each for each in (_within(service, minimum) for service in services) if each]
        parts = (Fraction(*share(each.active, each.whole, draft.inputs.zone)) for each in held)
        days = sum(parts, Fraction(0))
        with exact():
            amount = Amount(minimum.amount * days.numerator, days.denominator)
        start = held[0].active.start if held else services[0].active.end
        end = held[-1].active.end if held else start
        to_pay = draft.amount_to_pay(amount, minimum.currency)
        return cls(minimum, Period(start, end), to_pay, draft.currency)

    def lines(self, covered: Decimal) -> Iterator[LineDraft]:
        """What is missing, or, in advance, what comes back."""
        if self.minimum.in_advance:
            back = -min(covered, self.amount)
            yield from self._line(LineItemType.MINIMUM_SPEND_REFUND, back)
        else:
            missing = max(self.amount - covered, ZERO)
            yield from self._line(LineItemType.MINIMUM_SPEND, missing)

    def charge(self) -> Iterator[LineDraft]:
        """The whole of it."""
        yield from self._line(LineItemType.MINIMUM_SPEND, self.amount)

    def _line(self, kind: LineItemType, amount: Decimal) -> Iterator[LineDraft]:
        minimum = self.minimum
        if amount:
            drafted = LineDraft(
                type=kind,
                description=minimum.description,
                service_period=self.period,
                quantity=ONE,
                units=ONE,
                unit=UNIT,
                amount=Amount(amount),
                currency=self.currency,
                accounting_product=minimum.accounting_product,
                subject=minimum.subject,
                aggregation_id=minimum.aggregation_id,
                pricing_id=minimum.pricing_id,
                members=minimum.metric,
            )
            yield minimum.attribute(drafted)


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
