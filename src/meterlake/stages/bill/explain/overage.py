"""Overage: surcharges on what sources left uncovered, and usage lines that are cut in two."""

from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber
from meterlake.model.values.money import ZERO, RoundingMode
from meterlake.stages.bill.charges.overage_charges import CutUsage
from meterlake.stages.bill.credits.overage import UNIT_PLACES, Overage
from meterlake.stages.bill.explain.context import ExplainedBill, pricing_facts
from meterlake.stages.bill.explain.draws import DrawExplainer
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    round_to,
    subtract,
    total,
    with_key,
)
from meterlake.stages.bill.explain.prices import band_facts, explain_price


def explain_surcharge(
    bill: ExplainedBill, draws: DrawExplainer, overage: Overage
) -> ExplainedNumber:
    """The percent that a source asks for usage beyond it, in the billing currency."""
    parts = [draws.explain_uncovered_part(each) for each in sorted(overage.amounts)]
    uncovered = total("uncovered usage", parts, bill.currency)
    percent = cite("percent", overage.source.surcharge or ZERO, "%", source=overage.source.name)
    product = multiply("by percent", uncovered, percent, unit=bill.currency)
    operands = (product, cite("of a hundred", 100))
    return derive("surcharge", DerivationRule.QUOTIENT, operands, bill.currency)


def explain_uncovered(bill: ExplainedBill, draws: DrawExplainer, cut: CutUsage) -> ExplainedNumber:
    """What is beyond its sources of a line of usage, in the billing currency."""
    parts = [draws.explain_uncovered_part(each) for each in cut.parts]
    return total("beyond the sources", parts, bill.currency)


def explain_beyond(
    bill: ExplainedBill, draws: DrawExplainer, cut: CutUsage, key: str
) -> ExplainedNumber:
    """What usage beyond its sources costs by bands of its own, in the currency of the plan."""
    charge = cut.before.draft.subject.usage
    assert charge is not None
    applicable, currency = charge.applicable_pricing, charge.plan_period.terms.currency
    pricing = applicable.pricing.entity
    line = cut.before.line
    units = cite("units of the line", line.units, line.unit)
    covered = _covered_units(bill, draws, cut)
    beyond = subtract("units beyond", units, [covered], line.unit)
    return explain_price(
        "price of what is beyond",
        with_key(beyond, f"{key} units"),
        pricing.overage_pricing_bands,
        pricing.cumulative,
        currency,
        **pricing_facts(applicable.pricing),
    )


def _covered_units(bill: ExplainedBill, draws: DrawExplainer, cut: CutUsage) -> ExplainedNumber:
    """The units that were paid for."""
    line, split = cut.before.line, cut.split
    whole = bill.refer_line(cut.before.draft)
    assert whole is not None
    covered = subtract(
        "covered amount", whole, [explain_uncovered(bill, draws, cut)], bill.currency
    )
    if not split.covered_amount:
        return cite("covered units", ZERO, line.unit, note="the sources were dry before")
    charge = cut.before.draft.subject.usage
    assert charge is not None
    bands = charge.applicable_pricing.pricing.entity.pricing_bands
    if cut.is_plain and all(each.unit_price >= 0 and each.fixed_price >= 0 for each in bands):
        options = {
            "bands": [band_facts(each) for each in bands],
            "rate": line.conversion_rate,
            "units": line.units,
            "places": UNIT_PLACES,
        }
        return ExplainedNumber(
            name="covered units",
            value=split.covered_units,
            unit=line.unit,
            rule=DerivationRule.INVERSE,
            operands=(covered,),
            options=options,
        )
    units = cite("units of the line", line.units, line.unit)
    product = multiply("by amount", units, covered, unit=line.unit)
    part = derive("in proportion", DerivationRule.QUOTIENT, (product, whole), line.unit)
    found = round_to("rounded", part, (UNIT_PLACES, RoundingMode.HALF_UP), line.unit)
    rule = DerivationRule.MINIMUM if line.units > 0 else DerivationRule.MAXIMUM
    return derive("covered units", rule, (found, units), line.unit)
