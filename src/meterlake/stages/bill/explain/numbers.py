"""What trees of explained numbers are built of."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from meterlake.model.bills.explanation import RULES, DerivationRule, ExplainedNumber, number_of
from meterlake.model.values.money import (
    ONE,
    QUOTIENT_DIGITS,
    Rounding,
    RoundingMode,
    divide,
    exact,
    round_quotient,
    round_units,
)
from meterlake.stages.bill.pricing.rate import Slice

# How units are rounded, in the words of money: the same way below zero as above it.
UNIT_MODES: Final = {
    Rounding.UP: "CEILING",
    Rounding.DOWN: "FLOOR",
    Rounding.NEAREST: "HALF_CEILING",
}


def cite(name: str, value: Decimal | int | None, unit: str = "", **facts: Any) -> ExplainedNumber:
    """A number that the configuration, the ledger or somebody says."""
    number = Decimal(value) if isinstance(value, int) else value
    return ExplainedNumber(name=name, value=number, unit=unit, facts=omit_unknown(facts))


def derive(
    name: str,
    rule: DerivationRule,
    operands: Iterable[ExplainedNumber],
    unit: str = "",
    key: str | None = None,
    **facts: Any,
) -> ExplainedNumber:
    """A number that follows from others by a rule."""
    found = tuple(operands)
    value, fraction = number_of(RULES[rule]([each.exact for each in found]))
    return ExplainedNumber(
        name=name,
        value=value,
        unit=unit,
        rule=rule,
        operands=found,
        key=key,
        fraction=fraction,
        facts=omit_unknown(facts),
    )


def total(
    name: str,
    operands: Iterable[ExplainedNumber],
    unit: str = "",
    key: str | None = None,
    **facts: Any,
) -> ExplainedNumber:
    """A sum."""
    return derive(name, DerivationRule.SUM, operands, unit, key, **facts)


def subtract(
    name: str, first: ExplainedNumber, others: Sequence[ExplainedNumber], unit: str
) -> ExplainedNumber:
    """A number without others; itself if there are none."""
    if not others:
        return first
    return derive(name, DerivationRule.DIFFERENCE, (first, *others), unit)


def multiply(name: str, *operands: ExplainedNumber, unit: str, **facts: Any) -> ExplainedNumber:
    """A product."""
    return derive(name, DerivationRule.PRODUCT, operands, unit, **facts)


def prorate(
    name: str, charge: ExplainedNumber, days: tuple[int, int], unit: str
) -> ExplainedNumber:
    """A charge by days: exact, however many decimals it has."""
    active = cite("days", days[0], "days")
    product = multiply("by days", charge, active, unit=unit)
    whole = cite("days of the full period", days[1], "days")
    return derive(name, DerivationRule.QUOTIENT, (product, whole), unit)


def round_to(
    name: str, operand: ExplainedNumber, rounding: tuple[int, RoundingMode], unit: str, **facts: Any
) -> ExplainedNumber:
    """Money that is rounded."""
    places, mode = rounding
    number = operand.exact
    value = round_quotient(Decimal(number.numerator), number.denominator, places, mode)
    return ExplainedNumber(
        name=name,
        value=value,
        unit=unit,
        rule=DerivationRule.ROUND,
        operands=(operand,),
        options={"places": places, "mode": mode.value},
        facts=omit_unknown(facts),
    )


def to_units(
    quantity: ExplainedNumber, per_unit: Decimal, rounding: Rounding, unit: str
) -> ExplainedNumber:
    """What is priced of a quantity: per so many, and rounded; the quantity itself without either."""
    found = quantity
    if per_unit != ONE:
        assert quantity.value is not None
        found = ExplainedNumber(
            name=f"per {per_unit.normalize():f}",
            value=divide(quantity.value, per_unit),
            unit=unit,
            rule=DerivationRule.QUOTIENT,
            operands=(quantity, cite("quantity per unit", per_unit)),
            options={"digits": QUOTIENT_DIGITS},
        )
    if rounding is not Rounding.NONE:
        assert found.value is not None
        options = {"places": 0, "mode": UNIT_MODES[rounding]}
        found = ExplainedNumber(
            name="units",
            value=round_units(found.value, rounding),
            unit=unit,
            rule=DerivationRule.ROUND,
            operands=(found,),
            options=options,
        )
    return found


def refer_by_key(
    name: str, value: Decimal | Fraction, unit: str, key: str, **facts: Any
) -> ExplainedNumber:
    """A number that the tree of the bill explains somewhere else."""
    number, fraction = number_of(Fraction(value))
    return ExplainedNumber(
        name=name,
        value=number,
        unit=unit,
        rule=DerivationRule.SAME,
        options={"of": key},
        facts=omit_unknown(facts),
        fraction=fraction,
    )


def refer(found: ExplainedNumber) -> ExplainedNumber:
    """A reference to a number that has a key."""
    assert found.key is not None, found.name
    return refer_by_key(found.name, found.exact, found.unit, found.key)


def slice_units(
    part: Slice, units: ExplainedNumber, upper: Decimal | None, *, is_cut: bool
) -> ExplainedNumber:
    """The units that fall into a band.

    Args:
        part: The band and its units.
        units: All units, which have a key.
        upper: Where the band ends; None for the last one.
        is_cut: Whether bands cut the units; else all of them are in one.
    """
    assert units.key is not None
    if not is_cut:
        return refer_by_key("units", part.units, units.unit, units.key)
    limits = {"lower": part.band.lower_limit, "upper": upper}
    return ExplainedNumber(
        name="units in the band",
        value=part.units,
        unit=units.unit,
        rule=DerivationRule.SLICE,
        options={"of": units.key, **omit_unknown(limits)},
    )


def split_part(
    name: str,
    whole: ExplainedNumber,
    weights: tuple[ExplainedNumber, ExplainedNumber],
    value: Decimal,
    places: int,
) -> ExplainedNumber:
    """A part of money that is split by weights: rounded down, and a cent by the largest remainder.

    Args:
        name: What it is.
        whole: What is split.
        weights: Its own weight, and the sum of all.
        value: What it comes to.
        places: Decimals of the currency.
    """
    own, all_weights = weights
    if not all_weights.exact:
        # Nothing says how to split it: one part has it all.
        return derive(
            name, DerivationRule.PRODUCT, (whole, cite("part", int(bool(value)))), whole.unit
        )
    product = multiply("by weight", whole, own, unit=whole.unit)
    exact_part = derive("exact share", DerivationRule.QUOTIENT, (product, all_weights), whole.unit)
    mode = RoundingMode.CEILING if whole.exact < 0 else RoundingMode.FLOOR
    down = round_to("rounded down", exact_part, (places, mode), whole.unit)
    assert down.value is not None
    with exact():
        cent = value - down.value
    remainder = number_of(exact_part.exact - down.exact)[0]
    more = cite("by largest remainder", cent, whole.unit, remainder=remainder)
    return total(name, (down, more), whole.unit)


def with_key(found: ExplainedNumber, key: str, name: str | None = None) -> ExplainedNumber:
    """The same number under a key, and under another name if one is given."""
    return replace(found, key=key, name=name or found.name)


def omit_unknown(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts without those that nobody knows."""
    return {name: each for name, each in facts.items() if each is not None}
