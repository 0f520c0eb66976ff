"""The tree of a bill, from its total down to what its lines follow from.

Overage: surcharges on what sources left uncovered, and usage lines that are cut in two.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from meterlake.model.bills.bill import COUNTER_TYPES, LineItemType
from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber
from meterlake.model.customers.charges import Charge
from meterlake.model.values.money import ZERO, RoundingMode
from meterlake.stages.bill.charges.line_draft import FinishedLine, LineDraft
from meterlake.stages.bill.charges.minimum_spends import MinimumBasis
from meterlake.stages.bill.charges.overage_charges import CutUsage
from meterlake.stages.bill.charges.pooled_usage import PoolPart
from meterlake.stages.bill.charges.usage_credits import CreditBasis
from meterlake.stages.bill.credits.draw_downs import SourceDraw
from meterlake.stages.bill.credits.overage import UNIT_PLACES, Overage
from meterlake.stages.bill.explain.charges import (
    MinimumExplainer,
    explain_charge,
    explain_counter,
    explain_credit,
    explain_fee,
    explain_memo,
    explain_standing_charge,
)
from meterlake.stages.bill.explain.context import (
    ExplainedBill,
    line_key,
    period_facts,
    pricing_facts,
)
from meterlake.stages.bill.explain.draws import DrawExplainer
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    omit_unknown,
    round_to,
    subtract,
    total,
    with_key,
)
from meterlake.stages.bill.explain.prices import band_facts, explain_price
from meterlake.stages.bill.explain.usage import explain_drafted_usage
from meterlake.stages.bill.terms.advance_lines import AdvanceMemo
from meterlake.stages.bill.terms.bill_items import DueFee

# The steps of the order of calculation, as the documentation numbers them.
_STEPS: Final = {
    LineItemType.USAGE: (1, "usage"),
    **dict.fromkeys(COUNTER_TYPES, (2, "counters")),
    LineItemType.STANDING_CHARGE: (3, "standing charges"),
    LineItemType.MINIMUM_SPEND: (4, "minimum spends"),
    LineItemType.MINIMUM_SPEND_REFUND: (4, "minimum spends"),
    LineItemType.COMMITMENT_FEE: (5, "fees and charges"),
    LineItemType.BALANCE_FEE: (5, "fees and charges"),
    LineItemType.AD_HOC: (5, "fees and charges"),
    LineItemType.USAGE_CREDIT: (6, "usage credits"),
    LineItemType.COMMITMENT_CONSUMED: (7, "draw-downs"),
    LineItemType.BALANCE_CONSUMED: (7, "draw-downs"),
    LineItemType.OVERAGE_SURCHARGE: (8, "overage"),
    LineItemType.OVERAGE_USAGE: (8, "overage"),
    LineItemType.CREDIT_MEMO: (9, "memos"),
    LineItemType.DEBIT_MEMO: (9, "memos"),
    LineItemType.MANUAL_ADJUSTMENT: (9, "memos"),
}


def explain_total(
    bill: ExplainedBill,
    memos: Collection[ExplainedNumber] = (),
    keys: Collection[str] | None = None,
) -> ExplainedNumber:
    """The total of a bill with all that it follows from.

    Args:
        bill: What it was made from.
        memos: The lines that people put on it.
        keys: The keys of the lines that are explained; the others are numbers alone. All if None.
    """
    explainer = LineExplainer(bill, DrawExplainer(bill))
    # A line without what it follows from.
    lines = [
        explainer.line(each, number)
        if keys is None or each.line.key in keys
        else ExplainedNumber(
            name=f"{each.line.type} {each.line.description}",
            value=each.amount,
            unit=bill.currency,
            key=line_key(each),
            facts=line_facts(each, number),
        )
        for number, each in enumerate(bill.draft.lines, start=1)
    ]
    return total("Total", (*lines, *memos), bill.currency, "total")


def step_of(kind: LineItemType) -> str:
    """The step of the order of calculation that makes lines of a type."""
    number, title = _STEPS[kind]
    return f"{number}. {title}"


def line_facts(finished: FinishedLine, number: int) -> dict[str, Any]:
    """What a line says of itself."""
    line = finished.line
    return omit_unknown(
        {
            "number": number,
            "lineKey": line.key,
            "type": line.type.value,
            "description": line.description,
            "step": step_of(line.type),
            "servicePeriod": period_facts(line.service_period),
            "product": None if line.product is None else line.product.code,
            "planId": line.plan_id,
            "quantity": line.quantity,
            "units": line.units,
            "unit": line.unit,
            "child": line.members.get("childAccountCode"),
        }
    )


@dataclass(frozen=True, slots=True)
class LineExplainer:
    """Explains lines, those of this bill and those of others that count for it."""

    bill: ExplainedBill
    draws: DrawExplainer

    def line(self, finished: FinishedLine, number: int) -> ExplainedNumber:
        """A line of the bill as it stands there."""
        found = self._explain_as_it_stands(finished)
        line, currency = finished.line, self.bill.currency
        facts = line_facts(finished, number)
        if found.value != finished.amount:
            facts["unexplained"] = finished.amount
        beside = [*found.beside]
        if line.currency != currency:
            # The amount in the pricing currency, for the eye.
            shown = ExplainedNumber(name="subtotal", value=line.subtotal, unit=line.currency)
            beside.append(shown)
        if isinstance(finished.draft.basis, SourceDraw):
            beside += self.draws.explain_source(finished.draft.basis)
        name = f"{line.type} {line.description}"
        return replace(
            found,
            name=name,
            unit=currency,
            facts={**facts, **found.facts},
            beside=tuple(beside),
        )

    def _explain_as_it_stands(self, finished: FinishedLine) -> ExplainedNumber:
        drafted, cut = finished.draft, finished.draft.basis
        if not isinstance(cut, CutUsage):
            return with_key(self.explain_draft(drafted, line_key(finished)), line_key(finished))
        uncovered = explain_uncovered(self.bill, self.draws, cut)
        if drafted.type is not LineItemType.OVERAGE_USAGE:
            before = self._explain_before_cut(cut)
            operands = (before, uncovered)
            return derive("covered", DerivationRule.DIFFERENCE, operands, self.bill.currency)
        key = line_key(finished)
        found = uncovered
        if cut.split.slices is not None:
            own = explain_beyond(self.bill, self.draws, cut, key)
            found = self.bill.finish("beyond", own, _currency(drafted, self.bill))
        # Where nothing of the line stays, it stands nowhere else.
        return replace(with_key(found, key), beside=(self._explain_before_cut(cut),))

    def _explain_before_cut(self, cut: CutUsage) -> ExplainedNumber:
        key = line_key(cut.before)

        def explain() -> ExplainedNumber:
            return with_key(
                self.explain_draft(cut.before.draft, key), key, "the line before it was cut"
            )

        return self.bill.explain_once(key, explain)

    def explain_draft(self, drafted: LineDraft, key: str | None = None) -> ExplainedNumber:
        """What a drafted line comes to, in the billing currency."""
        if key is None:
            # What counts for the bill and stands on another one.
            key = self.bill.draft_key(drafted)
            name = f"{drafted.type} {drafted.description}"
            return self.bill.explain_once(
                key, lambda: with_key(self.explain_draft(drafted, key), key, name)
            )
        # What it comes to before that, in its own currency.
        basis = drafted.basis
        if isinstance(basis, MinimumBasis):
            is_refund = drafted.type is LineItemType.MINIMUM_SPEND_REFUND
            found = MinimumExplainer(self.bill, self.explain_draft).line(basis, is_refund=is_refund)
        elif isinstance(basis, CreditBasis):
            found = explain_credit(self.bill, basis, self.explain_draft)
        elif isinstance(basis, SourceDraw):
            found = self.draws.line(basis)
        elif isinstance(basis, Overage):
            found = explain_surcharge(self.bill, self.draws, basis)
        else:
            explain = _BY_BASIS.get(type(basis)) or _BY_TYPE.get(
                drafted.type, explain_drafted_usage
            )
            found = explain(self.bill, drafted, key)
        if isinstance(drafted.basis, PoolPart) and drafted.basis.is_rounded_together:
            return found
        return self.bill.finish("rounded", found, _currency(drafted, self.bill))


# What neither other lines nor sources decide.
_Explain = Callable[[ExplainedBill, LineDraft, str], ExplainedNumber]
_BY_BASIS: Final[Mapping[type[Any], _Explain]] = {
    DueFee: lambda bill, drafted, _: explain_fee(bill, drafted.basis),
    Charge: lambda _, drafted, __: explain_charge(drafted.basis),
    AdvanceMemo: lambda bill, drafted, _: explain_memo(bill, drafted.basis),
}
_BY_TYPE: Final[Mapping[LineItemType, _Explain]] = {
    **dict.fromkeys(COUNTER_TYPES, explain_counter),
    LineItemType.STANDING_CHARGE: lambda bill, drafted, _: explain_standing_charge(bill, drafted),
}


def _currency(drafted: LineDraft, bill: ExplainedBill) -> str:
    """The currency of a draft's amount."""
    if drafted.charged.currency is not None:
        return drafted.charged.currency
    return bill.currency if drafted.plan_period is None else drafted.plan_period.terms.currency


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
