"""Step 6: credits of pricings, and what negative lines leave to be drawn."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.billing_oracle.charges import COUNTER_TYPES, Charge, bill_currency
from tests.billing_oracle.money import smallest_unit, split
from tests.billing_oracle.world import World

Remaining = dict[int, Fraction]


def credit_order(charge: Charge) -> tuple[Any, ...]:
    """By code, then creation, then the order of the lines."""
    assert charge.pricing is not None
    assert charge.terms is not None
    created = charge.terms.world.pricings.index(charge.pricing)
    return (charge.pricing.get("code") or "", created, charge.order)


def covered_by_credit(credit: Charge, lines: Sequence[Charge]) -> list[Charge]:
    """A product credit is for the lines of its plan's product, a global one for all."""
    assert credit.pricing is not None
    assert credit.product is not None
    if credit.pricing["type"] == "GLOBAL_CREDIT":
        return list(lines)
    product = credit.product["id"]
    return [line for line in lines if line.product and line.product["id"] == product]


def apply_credits(lines: Sequence[Charge], credited: Sequence[Charge]) -> list[Charge]:
    """Cap each credit at the sum of the other lines that it is for, not below 0; product credits first.

    A credit line is made from other lines: it is in the billing currency.
    """
    done: list[Charge] = []
    for kind in ("PRODUCT_CREDIT", "GLOBAL_CREDIT"):
        alike = [credit for credit in credited if (credit.pricing or {})["type"] == kind]
        for credit in sorted(alike, key=credit_order):
            others = covered_by_credit(credit, [*lines, *done])
            limit = max(Fraction(0), sum((line.amount for line in others), Fraction(0)))
            amount = -max(Fraction(0), min(credit.amount, limit))
            if amount:
                done.append(_as_line(credit, amount))
    return done


def _as_line(credit: Charge, amount: Fraction) -> Charge:
    assert credit.terms is not None
    currency = bill_currency(credit.terms.world, credit.bill)
    credit.exact = credit.amount = credit.subtotal = amount
    credit.currency, credit.rate = currency, Fraction(1)
    return credit


def lines_lowered_by(negative: Charge, lines: Sequence[Charge]) -> list[Charge]:
    """The lines that a negative line is for.

    A refund is for the lines that it covered, an adjustment credit for the plan's counter lines,
    a negative usage line for the plan's usage lines, a credit for what it is capped by,
    any other for all lines of the bill.
    """
    same = [line for line in lines if line.terms is negative.terms and line.plan is negative.plan]
    if negative.type == "MINIMUM_SPEND_REFUND":
        return [line for line in lines if any(line is covered for covered in negative.covers)]
    if negative.type in COUNTER_TYPES:
        return [line for line in same if line.type in COUNTER_TYPES]
    if negative.type == "USAGE":
        return [line for line in same if line.type == "USAGE"]
    if negative.type == "USAGE_CREDIT":
        return covered_by_credit(negative, lines)
    return list(lines)


def eligible_amounts(world: World, lines: Sequence[Charge]) -> Remaining:
    """How much of each line can be drawn: negative lines lower it, by largest remainders, never below 0."""
    left = {id(line): max(Fraction(0), line.amount) for line in lines}
    for negative in lines:
        if negative.amount < 0:
            unit = smallest_unit(world, bill_currency(world, negative.bill))
            targets = [line for line in lines_lowered_by(negative, lines) if left[id(line)] > 0]
            weights = [left[id(line)] for line in targets]
            amount = min(-negative.amount, sum(weights, Fraction(0)))
            for line, part in zip(targets, split(amount, weights, unit), strict=True):
                left[id(line)] -= part
    return left
