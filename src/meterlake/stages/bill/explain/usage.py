"""Usage: quantities priced by bands, the shares of pools, and what is beyond sources."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber, number_of
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import LineDraft
from meterlake.stages.bill.charges.pooled_usage import PoolPart, UsageShare
from meterlake.stages.bill.explain.context import (
    ExplainedBill,
    entity_facts,
    period_facts,
    pricing_facts,
)
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    split_part,
    subtract,
    total,
    with_key,
)
from meterlake.stages.bill.explain.prices import explain_price
from meterlake.stages.bill.explain.quantities import QuantityExplainer
from meterlake.stages.bill.pricing.applicable_pricing import ApplicablePricing
from meterlake.stages.bill.terms.terms import PlanPeriod, PricedUsage


def explain_usage(bill: ExplainedBill, charge: PricedUsage, key: str) -> ExplainedNumber:
    """What usage costs, in the currency of its plan.

    Args:
        bill: The bill.
        charge: The usage.
        key: Names the numbers of it.
    """
    if not charge.spans:
        return _price(bill, charge, charge.period, key)
    until_end, *until_start = (
        _price(bill, charge, each, f"{key} until {each.end.isoformat()}") for each in charge.spans
    )
    return subtract("since the plan's start", until_end, until_start, until_end.unit)


def _price(bill: ExplainedBill, charge: PricedUsage, period: Period, key: str) -> ExplainedNumber:
    currency = charge.plan_period.terms.currency
    units = QuantityExplainer(bill, charge).units(charge.usage_id, period)
    if units is None:
        return cite("nothing was used", ZERO, currency, period=period_facts(period))
    pricing = charge.applicable_pricing.pricing.entity
    return explain_price(
        "price",
        with_key(units, f"{key} units"),
        pricing.pricing_bands,
        pricing.cumulative,
        currency,
        **_pricing_facts(charge.applicable_pricing, charge.plan_period),
    )


def _pricing_facts(applicable: ApplicablePricing, plan_period: PlanPeriod) -> dict[str, object]:
    return {
        **pricing_facts(applicable.pricing),
        "plan": entity_facts(plan_period.terms.plan),
        "tiersSpanPlan": applicable.pricing.entity.tiers_span_plan or None,
    }


def explain_part(bill: ExplainedBill, part: PoolPart) -> ExplainedNumber:
    """What one account is charged of what a pool used: the exact share, in the plan's currency.

    Where the rounded amount of the pool is split, it is the rounded share in the billing currency.
    """
    whole = _whole_of_pool(bill, part)
    weights = _weights(bill, part)
    if not part.is_rounded_together:
        product = multiply("by weight", whole, weights[0], unit=whole.unit)
        return derive("exact share", DerivationRule.QUOTIENT, (product, weights[1]), whole.unit)
    value = _rounded_part(bill, part)
    return split_part("share of the pool", whole, weights, value, bill.places)


def _rounded_part(bill: ExplainedBill, part: PoolPart) -> Decimal:
    for each in bill.lines().values():
        if each.draft.basis is part:
            return each.amount
    raise AssertionError(part.share.account.id)


def _whole_of_pool(bill: ExplainedBill, part: PoolPart) -> ExplainedNumber:
    charge = part.whole.subject.usage
    assert charge is not None
    key = f"pool {'/'.join(map(str, charge.identity[:3]))}/{charge.period.start.isoformat()}"

    def explain() -> ExplainedNumber:
        found = explain_usage(bill, charge, key)
        if part.is_rounded_together:
            found = bill.finish("pool", found, charge.plan_period.terms.currency)
        return with_key(found, key, "amount of the pool")

    return bill.explain_once(key, explain)


def _weights(bill: ExplainedBill, part: PoolPart) -> tuple[ExplainedNumber, ExplainedNumber]:
    """The weight of an account, and the sum of those of all."""
    charge = part.whole.subject.usage
    assert charge is not None
    # Its weight is its quantity, unless they sum to 0.
    own = _weight(part.share)
    if part.share.quantity is not None and part.share.quantity.value == part.share.weight:
        explainer = QuantityExplainer(bill, charge)
        found = explainer.quantity(part.share.usage_id, charge.period, default=False)
        own = own if found is None else found
    key = f"weights {'/'.join(map(str, charge.identity[:3]))}/{charge.period.start.isoformat()}"

    def explain() -> ExplainedNumber:
        return total("quantities of all accounts", map(_weight, part.shares), own.unit, key)

    return own, bill.explain_once(key, explain)


def _weight(share: UsageShare) -> ExplainedNumber:
    return cite(f"quantity of {share.account.entity.code}", share.weight)


def explain_drafted_usage(bill: ExplainedBill, drafted: LineDraft, key: str) -> ExplainedNumber:
    """What a line of usage comes to before it is converted and rounded."""
    if isinstance(drafted.basis, PoolPart):
        return explain_part(bill, drafted.basis)
    if drafted.subject.usage is None:
        # Nobody has said how lines of this kind are explained.
        amount = Fraction(drafted.charged.amount.dividend) / drafted.charged.amount.divisor
        return cite("exact amount", number_of(amount)[0])
    return replace(explain_usage(bill, drafted.subject.usage, key), name="exact amount")
