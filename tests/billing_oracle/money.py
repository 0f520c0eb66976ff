"""Currencies, rounding, and splitting an amount without losing a cent."""

from collections.abc import Sequence
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from typing import Any

from tests.billing_oracle.world import CannotBill, World


def exact(number: Any) -> Fraction:
    """A number of the wire without any loss."""
    if isinstance(number, Fraction):
        return number
    return Fraction(number) if isinstance(number, (int, Decimal)) else Fraction(str(number))


def quotient(dividend: Fraction, divisor: Fraction | int) -> Fraction:
    """A division as quantities show it: exact if it ends, else 20 significant digits, half-even."""
    found = dividend / divisor
    rest = found.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    if rest == 1:
        return found
    with localcontext(prec=20, rounding=ROUND_HALF_EVEN):
        return Fraction(Decimal(found.numerator) / found.denominator)


def to_decimal(number: Fraction) -> Decimal:
    """A rounded number as a Decimal."""
    found = Decimal(number.numerator) / Decimal(number.denominator)
    assert Fraction(found) == number, number
    return found


def places_of(world: World, code: str) -> tuple[int, str]:
    """A currency's `maxDecimalPlaces` and `roundingMode`: 2 and HALF_UP if unset."""
    for row in world.currencies:
        if row["code"] == code:
            places = row.get("maxDecimalPlaces")
            return (2 if places is None else places), row.get("roundingMode") or "HALF_UP"
    return 2, "HALF_UP"


def _nearest(size: Fraction, tie: str) -> int:
    whole, rest = floor(size), size - floor(size)
    if rest != Fraction(1, 2):
        return whole + (rest > Fraction(1, 2))
    return {"HALF_UP": whole + 1, "HALF_DOWN": whole, "HALF_EVEN": whole + whole % 2}[tie]


def _round_integer(number: Fraction, mode: str) -> int:
    if mode == "CEILING":
        return ceil(number)
    if mode == "FLOOR":
        return floor(number)
    if mode == "UNNECESSARY":
        if number.denominator != 1:
            raise CannotBill(f"{number} needs rounding, which the currency forbids")
        return int(number)
    size, sign = abs(number), 1 if number >= 0 else -1
    if mode in ("UP", "DOWN"):
        return sign * (ceil(size) if mode == "UP" else floor(size))
    return sign * _nearest(size, mode)


def round_to(number: Fraction, places: int, mode: str = "HALF_UP") -> Fraction:
    """Round to some decimals, by the names of java.math.RoundingMode."""
    scale = 10**places
    return Fraction(_round_integer(number * scale, mode), scale)


def round_money(world: World, number: Fraction, currency: str) -> Fraction:
    """Round an amount to its currency, once."""
    return round_to(number, *places_of(world, currency))


def smallest_unit(world: World, currency: str) -> Fraction:
    """The least amount that a currency can show."""
    return Fraction(1, 10 ** places_of(world, currency)[0])


def rate_between(world: World, source: str, target: str) -> Fraction:
    """The organization's rate from one currency to another; without one, billing of the account fails."""
    if source == target:
        return Fraction(1)
    for row in world.organization.get("currencyConversions") or ():
        if (row["from"], row["to"]) == (source, target):
            return exact(row["multiplier"])
    raise CannotBill(f"no rate from {source} to {target}")


def split(amount: Fraction, weights: Sequence[Fraction], unit: Fraction) -> list[Fraction]:
    """Split an amount in proportion to weights by largest remainders; ties go to the earlier part.

    Args:
        amount: A multiple of the unit.
        weights: One for each part; if they sum to 0, the first part takes all.
        unit: What cannot be divided further, such as a cent.
    """
    total = sum(weights, Fraction(0))
    if total == 0:
        return [amount if number == 0 else Fraction(0) for number in range(len(weights))]
    sign = 1 if amount >= 0 else -1
    shares = [abs(amount) / unit * weight / total for weight in weights]
    whole = [floor(share) for share in shares]
    missing = int(abs(amount) / unit) - sum(whole)
    by_rest = sorted(range(len(shares)), key=lambda n: (whole[n] - shares[n], n))
    for number in by_rest[:missing]:
        whole[number] += 1
    return [sign * count * unit for count in whole]
