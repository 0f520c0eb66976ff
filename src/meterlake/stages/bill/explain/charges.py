"""Counters, standing charges, minimum spends, fees, charges, credits and memos."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction

from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber, number_of
from meterlake.model.catalog.counters import Counter, CounterPricing
from meterlake.model.customers.charges import Charge
from meterlake.model.values.money import ZERO
from meterlake.stages.bill.charges.counter_charges import CounterChange
from meterlake.stages.bill.charges.line_draft import LineDraft
from meterlake.stages.bill.charges.minimum_spends import (
    CountedAmount,
    Coverage,
    MinimumBasis,
)
from meterlake.stages.bill.charges.usage_credits import CreditBasis
from meterlake.stages.bill.explain.context import ExplainedBill, entity_facts, pricing_facts
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    prorate,
    round_to,
    split_part,
    subtract,
    total,
    with_key,
)
from meterlake.stages.bill.explain.prices import explain_price
from meterlake.stages.bill.terms.advance_lines import AdvanceMemo
from meterlake.stages.bill.terms.bill_items import DueFee

# Explains an amount that stands on another bill.
ExplainDrafted = Callable[[LineDraft], ExplainedNumber]


def explain_counter(bill: ExplainedBill, drafted: LineDraft, key: str) -> ExplainedNumber:
    """A running total, or a change of a counter, in the currency of its plan."""
    plan_period, basis = drafted.plan_period, drafted.basis
    assert plan_period is not None
    currency = plan_period.terms.currency
    numbers = [("number", drafted.charged.quantity)]
    if isinstance(basis, CounterChange):
        numbers = [("number after", basis.after), ("number before", basis.before)]
    prices = [
        _counter_price(bill, drafted, currency, given_number=each, key=f"{key} {each[0]}")
        for each in numbers
    ]
    charge = subtract("price of the change", prices[0], prices[1:], currency)
    days = _days(drafted)
    # A counter that is not prorated says so.
    return charge if days == (1, 1) else prorate("prorated", charge, days, currency)


def _counter_price(
    bill: ExplainedBill,
    drafted: LineDraft,
    currency: str,
    given_number: tuple[str, Decimal],
    key: str,
) -> ExplainedNumber:
    name, value = given_number
    assert drafted.subject.pricing_id is not None
    record = bill.inputs.configuration.get(CounterPricing, drafted.subject.pricing_id)
    counter = bill.inputs.configuration.get(Counter, record.entity.counter_id)
    units = cite(name, value, counter.entity.unit, counter=entity_facts(counter))
    return explain_price(
        f"price of the {name}",
        with_key(units, key),
        record.entity.pricing_bands,
        record.entity.cumulative,
        currency,
        **pricing_facts(record),
    )


def _days(drafted: LineDraft) -> tuple[int, int]:
    return drafted.pins["active_days"], drafted.pins["period_days"]


def explain_standing_charge(bill: ExplainedBill, drafted: LineDraft) -> ExplainedNumber:
    """A standing charge by days, in the currency of its plan or plan group."""
    days, plan_period = _days(drafted), drafted.plan_period
    charge = Fraction(drafted.charged.amount.dividend) / days[0]
    number = number_of(charge)[0]
    if plan_period is None:
        source, currency = {}, drafted.charged.currency or bill.currency
    else:
        plan, currency = plan_period.terms.plan, plan_period.terms.currency
        of = "planTemplate" if plan.entity.standing_charge is None else "plan"
        source = {"of": of, "plan": entity_facts(plan)}
    return prorate("prorated", cite("standing charge", number, currency, **source), days, currency)


class MinimumExplainer:
    """Explains minimum spends: how they were reached, or what is missing."""

    def __init__(self, bill: ExplainedBill, explain: ExplainDrafted) -> None:
        """Begin.

        Args:
            bill: The bill.
            explain: Explains lines that count and stand on another bill.
        """
        self.bill = bill
        self.explain = explain

    def line(self, basis: MinimumBasis, *, is_refund: bool) -> ExplainedNumber:
        """What a line of a minimum comes to."""
        if basis.covered is None:
            return self._prorate_minimum(basis)
        minimum, covered = self._explain_minimum(basis), self._explain_coverage(basis.covered)
        if not is_refund:
            return self._explain_missing(minimum, covered)
        back = derive(
            "what is covered of it",
            DerivationRule.MINIMUM,
            (covered, minimum),
            self.bill.currency,
        )
        return derive("refund", DerivationRule.NEGATIVE, (back,), self.bill.currency)

    def _explain_missing(
        self, minimum: ExplainedNumber, covered: ExplainedNumber
    ) -> ExplainedNumber:
        currency = self.bill.currency
        left = derive(
            "minimum less covered", DerivationRule.DIFFERENCE, (minimum, covered), currency
        )
        nothing = cite("never below", ZERO, currency)
        return derive("missing", DerivationRule.MAXIMUM, (left, nothing), currency)

    def _explain_minimum(self, basis: MinimumBasis) -> ExplainedNumber:
        """What a minimum comes to on the bill."""
        return self.bill.finish(
            "minimum spend", self._prorate_minimum(basis), basis.minimum.currency
        )

    def _prorate_minimum(self, basis: MinimumBasis) -> ExplainedNumber:
        """A minimum by the days of its service periods, in its own currency."""
        minimum = basis.minimum
        owner: dict[str, object]
        group, plan = minimum.owner.group, minimum.owner.terms.plan
        if minimum.pricing_id is not None:
            owner = {"of": "pricing", "pricing": minimum.pricing_id}
        elif minimum.members and group is not None:
            owner = {"of": "planGroup", "planGroup": entity_facts(group.group)}
        else:
            of = "planTemplate" if plan.entity.minimum_spend is None else "plan"
            owner = {"of": of, "plan": entity_facts(plan)}
        whole = cite("minimum spend of a period", minimum.amount, minimum.currency, **owner)
        if len(basis.shares) == 1:
            return prorate("prorated", whole, basis.shares[0], minimum.currency)
        periods = [
            derive(
                "part of a period",
                DerivationRule.QUOTIENT,
                (cite("days", days, "days"), cite("days of the full period", all_days, "days")),
            )
            for days, all_days in basis.shares
        ]
        return multiply("prorated", whole, total("periods", periods), unit=minimum.currency)

    def _explain_coverage(self, covered: Coverage) -> ExplainedNumber:
        currency = self.bill.currency
        used = total("usage and counters", map(self._explain_counted, covered.used), currency)
        nothing = cite("never below", ZERO, currency)
        found = derive("covered", DerivationRule.MAXIMUM, (used, nothing), currency)
        if not covered.added:
            return found
        added = [
            self._explain_missing(
                self._explain_minimum(each), self._explain_coverage(each.covered or Coverage())
            )
            for each in covered.added
        ]
        return total("covered", (found, *added), currency)

    def _explain_counted(self, counted: CountedAmount) -> ExplainedNumber:
        return self.bill.refer_line(counted.drafted) or self.explain(counted.drafted)


def explain_fee(bill: ExplainedBill, due: DueFee) -> ExplainedNumber:
    """A fee of a commitment, in the currency of the commitment."""
    commitment, fee = due.commitment, due.fee
    currency, facts = commitment.entity.currency, {"commitment": entity_facts(commitment)}
    if fee.split is None:
        return cite("fee", fee.amount, currency, **facts)
    split, entity = fee.split, commitment.entity
    taken = (
        [cite("paid before", entity.amount_pre_paid, currency)] if entity.amount_pre_paid else []
    )
    with_first = cite("amount", entity.amount, currency, **facts)
    first = with_first.exact - sum((each.exact for each in taken), Fraction(split.rest))
    if first:
        taken.append(cite("amount of the first bill", number_of(first)[0], currency))
    rest = subtract("to split", with_first, taken, currency)
    exponent = split.rest.normalize().as_tuple().exponent
    own_places = max(0, -exponent) if isinstance(exponent, int) else 0
    places = max(bill.inputs.currencies.rounding(currency)[0], own_places)
    weights = _weight("fees", split.weight), _weight("fees of all periods", split.weights)
    found = split_part("share", rest, weights, split.share, places)
    if not split.first:
        return found
    return total("fee", (found, cite("amount of the first bill", split.first, currency)), currency)


def _weight(name: str, weight: Fraction) -> ExplainedNumber:
    parts = cite("days", weight.numerator), cite("days of full periods", weight.denominator)
    return derive(name, DerivationRule.QUOTIENT, parts)


def explain_charge(charge: Charge) -> ExplainedNumber:
    """A single charge, in its own currency."""
    facts = {"charge": {"kind": "Charge", "code": charge.code}}
    if charge.amount is not None:
        return cite("charge", charge.amount, charge.currency, **facts)
    units = cite("units", charge.units or ZERO)
    price = cite("unit price", charge.unit_price or ZERO, charge.currency)
    return multiply("charge", units, price, unit=charge.currency, **facts)


def explain_credit(
    bill: ExplainedBill, basis: CreditBasis, explain: ExplainDrafted
) -> ExplainedNumber:
    """A usage credit: what it comes to, at most what is left of its lines."""
    credit, currency = explain(basis.priced), bill.currency
    lines = (bill.refer_line(each.draft) for each in basis.lines)
    taken = (bill.refer_line(each) for each in basis.taken)
    amounts = [each for each in (*lines, *taken) if each is not None]
    left = derive(
        "left of the lines",
        DerivationRule.MAXIMUM,
        (total("lines", amounts, currency), cite("never below", ZERO, currency)),
        currency,
    )
    least = derive("credit", DerivationRule.MINIMUM, (credit, left), currency)
    return derive("taken away", DerivationRule.NEGATIVE, (least,), currency)


def explain_memo(bill: ExplainedBill, memo: AdvanceMemo) -> ExplainedNumber:
    """What a line of a locked bill would be now, without what it is and what corrected it before."""
    references = {"bill": memo.referenced_bill_id, "line": memo.referenced_line_id}
    billed = Decimal(memo.line["convertedSubtotal"])
    before = cite("as it was billed", billed, memo.currency, **references)
    due = cite("due now", memo.due, memo.currency)
    if memo.days is not None:
        rounding = bill.inputs.currencies.rounding(memo.currency)
        due = round_to(
            "due now", prorate("by days", before, memo.days, memo.currency), rounding, memo.currency
        )
    settled = [cite("corrected before", memo.settled, memo.currency)] if memo.settled else []
    found = subtract("difference", due, [before, *settled], memo.currency)
    more = [
        cite("goes back to a source", each.amount, memo.currency, source=str(each.account))
        for each in memo.returns
    ]
    if memo.returned:
        more.insert(0, cite("went back to sources before", memo.returned, memo.currency))
    return total("correction", (found, *more), memo.currency) if more else found
