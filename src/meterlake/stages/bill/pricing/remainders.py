"""Money over weights, by largest remainders: the parts add up, and each is at most a unit off."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor, lcm

from meterlake.model.values.money import ZERO, exact, plain, split

Weight = Decimal | Fraction | int


def split_by_weights(
    amount: Decimal, weights: Sequence[Weight], places: int, fallback: int = 0
) -> list[Decimal]:
    """Split money over weights.

    Args:
        amount: With at most `places` decimals; may be negative.
        weights: One or more. A negative one takes no part. Ties go to the earlier one.
        places: Decimals of the currency.
        fallback: The part that takes everything if no weight is above 0.

    >>> split_by_weights(Decimal("1.00"), [1, 1, 1], 2)
    [Decimal('0.34'), Decimal('0.33'), Decimal('0.33')]
    """
    assert weights, amount
    # The weights as whole numbers in the same proportions, without negative ones.
    shares = [max(Fraction(each), Fraction(0)) for each in weights]
    common = lcm(*(each.denominator for each in shares))
    whole = [Decimal((each * common).numerator) for each in shares]
    if not any(whole):
        return [amount if each == fallback else ZERO for each in range(len(weights))]
    return split(amount, whole, places)


def split_by_signed_weights(
    amount: Decimal, weights: Sequence[Decimal], places: int
) -> list[Decimal]:
    """Split money in proportion to weights some of which may be negative.

    Args:
        amount: With at most `places` decimals; may be negative.
        weights: Do not sum to 0, unless there is nothing to split. Ties go to the earlier one.
        places: Decimals of the currency.

    >>> split_by_signed_weights(Decimal("8.00"), [Decimal(10), Decimal(-2)], 2)
    [Decimal('10.00'), Decimal('-2.00')]
    """
    total = sum(map(Fraction, weights), Fraction(0))
    with exact():
        units = int(abs(amount).scaleb(places))
    total = total if units else Fraction(1)
    shares = [units * Fraction(weight) / total for weight in weights]
    parts = [floor(share) for share in shares]
    by_rest = sorted(range(len(shares)), key=lambda n: parts[n] - shares[n])
    for number in by_rest[: units - sum(parts)]:
        parts[number] += 1
    with exact():
        sign = -1 if amount < 0 else 1
        return [Decimal(sign * part).scaleb(-places) for part in parts]


def decimals(amount: Decimal, least: int) -> int:
    """How many decimals an amount has, trailing zeros aside; at least so many."""
    return max(least, len(plain(amount).partition(".")[2]))


def lower_by_weights(amounts: Sequence[Decimal], reduction: Decimal, places: int) -> list[Decimal]:
    """Lower amounts together by a reduction, each in proportion to what it is, never below 0.

    Args:
        amounts: None is negative.
        reduction: Above 0; what is more than all amounts lowers nothing.
        places: Decimals of the currency.
    """
    total = sum(amounts, ZERO)
    if reduction >= total:
        return [ZERO for _ in amounts]
    shares = split_by_weights(reduction, amounts, places)
    return [amount - share for amount, share in zip(amounts, shares, strict=True)]
