"""Exact numbers: how they are read, divided, rounded and written. The only place that rounds.

Everything else computes under `exact()`, where an operation that would lose a digit raises.
"""

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from decimal import (
    ROUND_05UP,
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_DOWN,
    ROUND_HALF_EVEN,
    ROUND_HALF_UP,
    ROUND_UP,
    Context,
    Decimal,
    DivisionByZero,
    FloatOperation,
    Inexact,
    InvalidOperation,
    Overflow,
    localcontext,
)
from enum import StrEnum
from functools import cache
from typing import Final

ZERO: Final = Decimal(0)
ONE: Final = Decimal(1)
_HALF: Final = Decimal("0.5")

# What a lake column DECIMAL(38,12) holds.
LAKE_PRECISION: Final = 38
LAKE_SCALE: Final = 12
LAKE_INTEGER_DIGITS: Final = LAKE_PRECISION - LAKE_SCALE

# [+-]?digits[.digits][e±n], no spaces, no underscores, ASCII digits only.
NUMBER_PATTERN: Final = r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?"
_NUMBER = re.compile(NUMBER_PATTERN)

_LAKE_STEP: Final = ONE.scaleb(-LAKE_SCALE)

_TRAPS: Final = [InvalidOperation, FloatOperation, Overflow, DivisionByZero]
# Sums of 38-digit lake numbers times 38-digit prices stay well below 200 digits.
EXACT: Final = Context(prec=200, traps=[Inexact, *_TRAPS])
# Wide enough that a quantize to cents never runs out of digits.
_WIDE: Final = Context(prec=400, rounding=ROUND_HALF_EVEN, traps=_TRAPS)
# ROUND_05UP leaves a trace of what it cuts off, so that a second rounding is still right.
_STICKY: Final = Context(prec=400, rounding=ROUND_05UP, traps=_TRAPS)

# An endless quotient keeps this many significant digits, rounded half-even.
QUOTIENT_DIGITS: Final = 20
_QUOTIENT: Final = Context(prec=QUOTIENT_DIGITS, rounding=ROUND_HALF_EVEN, traps=_TRAPS)


class RoundingMode(StrEnum):
    """How money is rounded: the eight modes of java.math.RoundingMode."""

    UP = "UP"
    DOWN = "DOWN"
    CEILING = "CEILING"
    FLOOR = "FLOOR"
    HALF_UP = "HALF_UP"
    HALF_DOWN = "HALF_DOWN"
    HALF_EVEN = "HALF_EVEN"
    UNNECESSARY = "UNNECESSARY"


class Rounding(StrEnum):
    """How an aggregation rounds its units."""

    UP = "UP"
    DOWN = "DOWN"
    NEAREST = "NEAREST"
    NONE = "NONE"


_MODES: Final = {
    RoundingMode.UP: ROUND_UP,
    RoundingMode.DOWN: ROUND_DOWN,
    RoundingMode.CEILING: ROUND_CEILING,
    RoundingMode.FLOOR: ROUND_FLOOR,
    RoundingMode.HALF_UP: ROUND_HALF_UP,
    RoundingMode.HALF_DOWN: ROUND_HALF_DOWN,
    RoundingMode.HALF_EVEN: ROUND_HALF_EVEN,
}


def exact() -> AbstractContextManager[Context]:
    """Compute exactly: inside, an operation that would round, or that meets a float, raises."""
    return localcontext(EXACT)


def parse_number(text: str) -> Decimal | None:
    """Read a number as every door of meterlake reads it.

    Args:
        text: `[+-]?digits[.digits][e±n]`, without spaces or underscores.

    Returns:
        The number rounded half-even to the lake's 12 decimals, or None if the text is no such
        number or has more than 26 integer digits.
    """
    if not _NUMBER.fullmatch(text):
        return None
    return to_lake(Decimal(text))


def to_lake(number: Decimal) -> Decimal | None:
    """Round half-even to the lake's 12 decimals; None for what does not fit, NaN and infinity."""
    if not number.is_finite() or (number and number.adjusted() >= LAKE_INTEGER_DIGITS):
        return None
    if number and number.same_quantum(_LAKE_STEP):
        return number  # Most are: they come from the lake.
    # The lake knows no -0.
    rounded = _WIDE.add(number.quantize(_LAKE_STEP, context=_WIDE), ZERO)
    return rounded if rounded.adjusted() < LAKE_INTEGER_DIGITS else None


def divide(dividend: Decimal, divisor: Decimal) -> Decimal:
    """Divide: exactly where the quotient ends, else rounded half-even to 20 significant digits.

    >>> divide(Decimal(1), Decimal(8)), divide(Decimal(2), Decimal(3))
    (Decimal('0.125'), Decimal('0.66666666666666666667'))

    Raises:
        decimal.DivisionByZero: `divisor` is zero.
    """
    if not divisor:
        raise DivisionByZero(dividend)  # 0/0 as well, which decimal calls an invalid operation
    try:
        return EXACT.normalize(EXACT.divide(dividend, divisor))
    except Inexact:
        return _QUOTIENT.divide(dividend, divisor)


def amount_of_quotient(quotient: Decimal, divisor: Decimal) -> Decimal:
    """The amount that `divide` gave the quotient of: 100 of 33.333333333333333333 × 3.

    A quotient that ends gives it to the last digit. One that was cut gives its first 18 digits,
    at most 12 of them behind the point: what was cut changes none of these.

    >>> amount_of_quotient(divide(Decimal(100), Decimal(3)), Decimal(3))
    Decimal('100')
    """
    product = EXACT.multiply(quotient, divisor)
    places = min(LAKE_SCALE, QUOTIENT_DIGITS - 3 - product.adjusted())
    if not product or len(quotient.as_tuple().digits) < QUOTIENT_DIGITS or places < 0:
        return product
    rounded = product.quantize(_step(places), ROUND_HALF_EVEN, _WIDE)
    return EXACT.add(EXACT.normalize(rounded), ZERO)


def round_units(units: Decimal, rounding: Rounding) -> Decimal:
    """Round units to whole ones, the same way below zero as above it.

    UP is the next whole unit, DOWN the one before, NEAREST sends halves up: 5.1 is 5, 3.5 is 4.

    >>> [int(round_units(Decimal("-3.5"), mode)) for mode in ("UP", "DOWN", "NEAREST")]
    [-3, -4, -3]
    """
    if rounding == Rounding.NONE:
        return units
    mode = ROUND_CEILING if rounding == Rounding.UP else ROUND_FLOOR
    shifted = _WIDE.add(units, _HALF) if rounding == Rounding.NEAREST else units
    return _WIDE.add(shifted.quantize(ONE, mode, _WIDE), ZERO)


def round_amount(amount: Decimal, places: int, mode: RoundingMode) -> Decimal:
    """Round money to `places` decimals: the one rounding of a bill line.

    Raises:
        decimal.Inexact: The mode is UNNECESSARY and a digit would be lost.
    """
    step = _step(places)
    if mode == RoundingMode.UNNECESSARY:
        return EXACT.add(amount.quantize(step, context=EXACT), ZERO)
    return _WIDE.add(amount.quantize(step, _MODES[mode], _WIDE), ZERO)


@cache
def _step(places: int) -> Decimal:
    return ONE.scaleb(-places)


def round_quotient(dividend: Decimal, divisor: int, places: int, mode: RoundingMode) -> Decimal:
    """Round `dividend / divisor` to `places` decimals as if the quotient had endless digits.

    Prorated money is rounded this way: dividing first and rounding the 20 digits of `divide` could
    fall on the wrong side of a half.

    Raises:
        decimal.Inexact: The mode is UNNECESSARY and a digit would be lost.
    """
    if divisor == 1:
        return round_amount(dividend, places, mode)
    with localcontext(_STICKY):
        quotient = dividend / divisor
    return round_amount(quotient, places, mode)


def split(amount: Decimal, weights: Sequence[Decimal], places: int) -> list[Decimal]:
    """Split money by weights into parts that add up to it, by largest remainder.

    Args:
        amount: Money with at most `places` decimals.
        weights: One or more non-negative weights, not all zero; ties go to the earlier one.
        places: Decimals of the currency.
    """
    step = ONE.scaleb(-places)
    with localcontext(EXACT):
        total = sum(weights, ZERO)
        cents = amount.scaleb(places)
        assert total > 0, weights
        assert min(weights) >= 0, weights
        assert cents == cents.to_integral_value(), amount
        # `//` cuts towards zero, for refunds too, so every remainder has the sign of the amount.
        shares = [cents * weight // total for weight in weights]
        remainders = [cents * w - part * total for w, part in zip(weights, shares, strict=True)]
        left = int(cents - sum(shares, ZERO))
        order = sorted(range(len(weights)), key=lambda i: -abs(remainders[i]))
        for i in order[: abs(left)]:
            shares[i] += 1 if left > 0 else -1
        return [part * step for part in shares]


def plain(number: Decimal) -> str:
    """Write a number with plain digits, without exponent and trailing zeros.

    >>> plain(Decimal("1E+3")), plain(Decimal("0.100")), plain(Decimal("-0"))
    ('1000', '0.1', '0')
    """
    assert number.is_finite(), number
    text = str(number)  # Three times as fast as `format`, which only exponents need.
    if "E" in text:
        text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in {"-0", ""} else text
