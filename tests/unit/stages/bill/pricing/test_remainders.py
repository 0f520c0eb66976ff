"""Money over weights by largest remainders."""

from decimal import Decimal
from fractions import Fraction

import pytest

from meterlake.stages.bill.pricing.remainders import decimals, lower_by_weights, split_by_weights

D = Decimal


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [
        ("1.00", [1, 1, 1], ["0.34", "0.33", "0.33"]),
        ("-1.00", [1, 1, 1], ["-0.34", "-0.33", "-0.33"]),
        ("1.00", [D("0.1"), Fraction(1, 3)], ["0.23", "0.77"]),
        ("0.01", [1, 2], ["0.00", "0.01"]),
        ("1.00", [-5, 1, 0], ["0.00", "1.00", "0.00"]),
        ("0", [1, 1], ["0.00", "0.00"]),
        ("5", [0, 0, -1], ["5", "0", "0"]),
    ],
)
def test_an_amount_is_split(amount, weights, parts):
    assert split_by_weights(D(amount), weights, 2) == [D(part) for part in parts]


def test_without_a_weight_above_0_the_fallback_has_everything():
    assert split_by_weights(D(7), [0, 0], 2, fallback=1) == [D(0), D(7)]


def test_a_reduction_lowers_in_proportion_and_never_below_0():
    assert lower_by_weights([D("10.00"), D("0.00"), D("30.00")], D(8), 2) == [D(8), D(0), D(24)]
    assert lower_by_weights([D(1), D(2)], D(9), 2) == [D(0), D(0)]
    assert lower_by_weights([], D(9), 2) == []


@pytest.mark.parametrize(
    ("amount", "least", "found"), [("10", 2, 2), ("1.234", 2, 3), ("1.2000", 2, 2), ("1E+3", 0, 0)]
)
def test_decimals_of_an_amount(amount, least, found):
    assert decimals(D(amount), least) == found
