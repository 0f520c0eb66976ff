"""The step of minimum spends: what is missing to the least that a pricing or a plan costs.

A minimum covers the lines of its own service period. In arrears, what is missing stands on the bill
at the end. In advance, the whole minimum stands on the bill at the beginning, and the bill at the
end gives back what the lines have covered of it: so both come to max(usage, minimum).

A higher minimum counts a lower one as what it adds to the lines of this one, whether in advance or
not: a plan's that of a pricing, a plan group's those of its plans.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import COUNTER_TYPES, NO_MEMBERS, LineItemType, ProductName, Segment
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Period, share
from meterlake.stages.bill.charges.counter_charges import counter_amounts
from meterlake.stages.bill.charges.line_draft import (
    NOTHING,
    BillDraft,
    LineAmount,
    LineDraft,
    LinePlace,
    LineSubject,
    sort_lines,
)
from meterlake.stages.bill.charges.usage_charges import usage_on_other_bills
from meterlake.stages.bill.periods.service_periods import ServicePeriod
from meterlake.stages.bill.pricing.applicable_pricing import PlanTerms
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.terms import PlanPeriod

UNIT: Final = "minimum spend"

# The minimums of pricings stand before the one of their plan.
_PRICING: Final = 0
_AFTER_PRICINGS: Final = (1,)
# What counts towards a minimum.
_COVERED: Final = frozenset({LineItemType.USAGE, *COUNTER_TYPES})


class Minimum(NamedTuple):
    """A minimum spend of a pricing, a plan or a plan group.

    Attributes:
        amount: What it is for a whole billing period, in `currency`.
        owner: The plan that it belongs to, or one of the plan group.
        order: Where its lines stand among those of the plan.
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
    order: tuple[Any, ...] = _AFTER_PRICINGS
    subject: str | None = None
    aggregation_id: str | None = None
    metric: Mapping[str, Any] = NO_MEMBERS
    pricing_id: str | None = None
    segment: Segment | None = None
    members: Mapping[str, str] = NOTHING

    def covers(self, other: LineDraft) -> bool:
        """Whether it is for a line: of its pricing, of its plan, or of a plan of its group."""
        if other.plan_period is None or other.type not in _COVERED:
            return False
        if self.window is not None:
            is_usage = other.type is LineItemType.USAGE
            return is_usage and other.plan_period is self.owner and _is_of(other, self)
        if self.members:
            return other.plan_period.account_plan.id == self.owner.account_plan.id
        return other.plan_period is self.owner

    def attribute(self, drafted: LineDraft) -> LineDraft:
        """A line of the minimum, with what charges it."""
        if self.members:
            return drafted._replace(account_plan=self.owner.account_plan, members=self.members)
        return drafted._replace(plan_period=self.owner)


def minimum_spends(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge what is missing to minimum spends, or give back what was charged in advance."""
    assessed: dict[int, _Assessment] = {}
    for plan_period in draft.bill.plan_periods:
        assessment = assessed[id(plan_period)] = _assess_plan(draft, plan_period)
        # The minimums of the service periods that begin with the bill, whole.
        charge_in_advance: list[LineDraft] = []
        for services in filter(None, plan_period.time.begun):
            period = Period(services[0].whole.start, services[-1].whole.end)
            terms = draft.inputs.catalog.terms(plan_period.terms.plan.id, period)
            for minimum in (*_of_pricings(terms, plan_period), *_of_plan(terms, plan_period)):
                charge_in_advance += _begin(draft, services, minimum)
        yield from sort_lines([*charge_in_advance, *assessment.lines])
    for plan_periods in draft.plans_of_groups():
        of_plans = [assessed[id(each)] for each in plan_periods]
        used = tuple(found for each in of_plans for found in each.coverage.used)
        added = tuple(found for each in of_plans for found in each.coverage.added)
        yield from _assess_group(draft, plan_periods[0], Coverage(used, added))


class CountedAmount(NamedTuple):
    """What counts towards a minimum, in the billing currency: a line of this or of another bill."""

    drafted: LineDraft
    amount: Decimal


class Coverage(NamedTuple):
    """What a minimum covers.

    Attributes:
        used: What was used; together it may be below 0 if more is given back.
        added: What lower minimums add to that.
    """

    used: tuple[CountedAmount, ...] = ()
    added: tuple["MinimumBasis", ...] = ()

    @property
    def amount(self) -> Decimal:
        """What all of it comes to, in the billing currency."""
        used = sum((each.amount for each in self.used), ZERO)
        return max(used, ZERO) + sum((each.missing for each in self.added), ZERO)


class MinimumBasis(NamedTuple):
    """What a line of a minimum was worked out from.

    Attributes:
        shares: The days in which it holds, and all days, of each service period.
        amount: What it comes to by these, in the billing currency.
        covered: What it covers; None of the whole minimum in advance.
    """

    minimum: Minimum
    shares: tuple[tuple[int, int], ...]
    amount: Decimal
    covered: Coverage | None

    @property
    def missing(self) -> Decimal:
        """What it adds to what it covers."""
        covered = ZERO if self.covered is None else self.covered.amount
        return max(self.amount - covered, ZERO)


class _Assessment(NamedTuple):
    """What the minimums of a plan come to.

    Attributes:
        coverage: Its usage and its counters, and what its minimums add to that.
    """

    coverage: Coverage
    lines: list[LineDraft]

    def add(self, assessed: "_Assessed", covered: Coverage) -> "_Assessment":
        """The same with one more minimum, of which so much is covered."""
        basis = MinimumBasis(assessed.minimum, assessed.shares, assessed.amount, covered)
        coverage = self.coverage._replace(added=(*self.coverage.added, basis))
        return _Assessment(coverage, [*self.lines, *assessed.lines(covered)])


def _assess_plan(draft: BillDraft, plan_period: PlanPeriod) -> _Assessment:
    """The minimums of the service periods that end with the bill, against their lines."""
    services = list(plan_period.time.services(in_advance=False))
    counters = (CountedAmount(*each) for each in counter_amounts(draft, plan_period))
    assessment = _Assessment(Coverage((*_usage(draft, plan_period), *counters)), [])
    if not services:
        return assessment
    for minimum in _of_pricings(plan_period.terms, plan_period):
        covered = Coverage(tuple(_usage(draft, plan_period, minimum)))
        assessment = assessment.add(_Assessed.of(draft, services, minimum), covered)
    for minimum in _of_plan(plan_period.terms, plan_period):
        assessed = _Assessed.of(draft, services, minimum)
        assessment = assessment.add(assessed, assessment.coverage)
    return assessment


def _assess_group(
    draft: BillDraft, plan_period: PlanPeriod, covered: Coverage
) -> Iterator[LineDraft]:
    """The minimum of a plan group, against all that its plans come to."""
    group = plan_period.group
    if group is None or not group.minimum_spend:
        return
    minimum = Minimum(
        amount=group.minimum_spend,
        currency=group.currency,
        description=group.minimum_spend_description,
        in_advance=group.minimum_spend_in_advance,
        accounting_product=group.minimum_spend_product,
        owner=plan_period,
        members={"planGroupId": group.group.id},
    )
    lines: list[LineDraft] = []
    for begun in filter(None, plan_period.time.begun):
        lines += _begin(draft, begun, minimum)
    services = list(plan_period.time.services(in_advance=False))
    if services:
        lines += _Assessed.of(draft, services, minimum).lines(covered)
    yield from sort_lines(lines)


def _begin(
    draft: BillDraft, services: Sequence[ServicePeriod], minimum: Minimum
) -> Iterator[LineDraft]:
    """The whole minimum of a billing period, if it is in advance and begins with the bill."""
    if not minimum.in_advance:
        return
    assessed = _Assessed.of(draft, services, minimum)
    if minimum.owner.time.begins_with_bill(assessed.period.start):
        yield from assessed.charge()


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
            name, own = applicable.aggregation.entity.name, pricing.minimum_spend_bill_in_advance
            yield Minimum(
                amount=pricing.minimum_spend,
                currency=terms.currency,
                description=pricing.minimum_spend_description or f"{name} Minimum Spend Adjustment",
                in_advance=terms.minimum_spend_in_advance if own is None else own,
                accounting_product=applicable.accounting_product,
                owner=owner,
                window=applicable.period,
                order=(_PRICING, applicable.order),
                subject=applicable.aggregation.id,
                aggregation_id=None if applicable.is_compound else applicable.aggregation.id,
                metric=applicable.members,
                pricing_id=applicable.pricing.id,
                segment=applicable.segment,
            )


class _Assessed(NamedTuple):
    """A minimum for some service periods.

    Attributes:
        period: From the begin of the first to the end of the last.
        whole_end: When the last of them ends, whether the minimum holds until then or not.
        prorated: What it comes to by the days in which it holds, in its own currency.
        amount: The same as a line on the bill would be.
        currency: The billing currency.
        shares: The days in which it holds, and all days, of each service period.
    """

    minimum: Minimum
    period: Period
    whole_end: datetime
    prorated: Amount
    amount: Decimal
    currency: str
    shares: tuple[tuple[int, int], ...]

    @classmethod
    def of(
        cls, draft: BillDraft, services: Sequence[ServicePeriod], minimum: Minimum
    ) -> "_Assessed":
        found = [each for each in (_within(service, minimum) for service in services) if each]
        shares = [share(each.active, each.whole, draft.inputs.zone) for each in found]
        parts = [Fraction(*each) for each in shares]
        held = [each for each, part in zip(found, parts, strict=True) if part]
        days = sum(parts, Fraction(0))
        with exact():
            prorated = Amount(minimum.amount * days.numerator, days.denominator)
        start = held[0].active.start if held else services[0].active.end
        end = held[-1].active.end if held else start
        to_pay = draft.amount_to_pay(prorated, minimum.currency)
        whole_end = services[-1].whole.end
        period, currency = Period(start, end), draft.currency
        return cls(minimum, period, whole_end, prorated, to_pay, currency, tuple(shares))

    def covers(self, other: LineDraft) -> bool:
        """Whether it is for a line, also by time: not for counters of the period that begins."""
        return self.minimum.covers(other) and other.service_period.start < self.whole_end

    def lines(self, covered: Coverage) -> Iterator[LineDraft]:
        """What is missing, or, in advance, what comes back."""
        kind, amount = LineItemType.MINIMUM_SPEND, max(self.amount - covered.amount, ZERO)
        if self.minimum.in_advance:
            kind, amount = (
                LineItemType.MINIMUM_SPEND_REFUND,
                min(covered.amount, self.amount).copy_negate(),
            )
        yield from self._line(kind, Amount(amount), self.currency, covered)

    def charge(self) -> Iterator[LineDraft]:
        """The whole of it, in its own currency: no other line makes it."""
        if self.amount:
            currency = self.minimum.currency
            yield from self._line(LineItemType.MINIMUM_SPEND, self.prorated, currency)

    def _line(
        self, kind: LineItemType, amount: Amount, currency: str, covered: Coverage | None = None
    ) -> Iterator[LineDraft]:
        minimum = self.minimum
        if amount.dividend:
            drafted = LineDraft(
                type=kind,
                description=minimum.description,
                service_period=self.period,
                charged=LineAmount(amount, UNIT, currency=currency),
                accounting_product=minimum.accounting_product,
                subject=LineSubject(
                    minimum.subject,
                    minimum.aggregation_id,
                    pricing_id=minimum.pricing_id,
                    segment=minimum.segment,
                ),
                members=minimum.metric,
                place=LinePlace(minimum.order, covers=self.covers),
                basis=MinimumBasis(minimum, self.shares, self.amount, covered),
            )
            yield minimum.attribute(drafted)


def _within(service: ServicePeriod, minimum: Minimum) -> ServicePeriod | None:
    """The part of a service period in which a minimum holds."""
    if minimum.window is None:
        return service
    active = service.active.intersection(minimum.window.start, minimum.window.end)
    return None if active is None else ServicePeriod(active, service.whole)


def _usage(
    draft: BillDraft, plan_period: PlanPeriod, minimum: Minimum | None = None
) -> Iterator[CountedAmount]:
    """The usage of a plan, or of the pricing of a minimum in its window, on whichever bill."""
    found = (each for each in draft.lines if each.draft.plan_period is plan_period)
    usage = (each for each in found if each.line.type is LineItemType.USAGE)
    amounts = [CountedAmount(each.draft, each.amount) for each in usage]
    amounts += (CountedAmount(*each) for each in usage_on_other_bills(draft, plan_period))
    for each in amounts:
        if minimum is None or _is_of(each.drafted, minimum):
            yield each


def _is_of(drafted: LineDraft, minimum: Minimum) -> bool:
    assert minimum.window is not None
    start = drafted.service_period.start
    return drafted.subject.pricing_id == minimum.pricing_id and start in minimum.window
