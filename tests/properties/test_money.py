from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.values.money import (
    QUOTIENT_DIGITS,
    RoundingMode,
    divide,
    parse_number,
    plain,
    round_amount,
    round_quotient,
    round_units,
    split,
    to_lake,
)
from tests.oracles import half_up

# The lake's numbers, and prices as people write them.
lake = st.decimals(-(10**25), 10**25, places=12)
prices = st.decimals(0, 10**6, places=8)
places = st.integers(0, 5)
modes = st.sampled_from(sorted(set(RoundingMode) - {RoundingMode.UNNECESSARY}))


@given(lake, st.decimals("0.000000000001", 10**12, places=12))
def test_a_quotient_is_exact_or_off_by_half_of_its_twentieth_digit_at_most(dividend, divisor):
    quotient = divide(dividend, divisor)
    true = Fraction(dividend) / Fraction(divisor)
    digits = len(quotient.as_tuple().digits)

    if Fraction(quotient) != true:
        unit = Fraction(10) ** (quotient.adjusted() - QUOTIENT_DIGITS + 1)
        assert digits <= QUOTIENT_DIGITS
        assert abs(Fraction(quotient) - true) * 2 <= unit


@given(lake, st.integers(1, 366), places)
def test_prorated_money_is_rounded_once(dividend, divisor, places):
    rounded = round_quotient(dividend, divisor, places, RoundingMode.HALF_UP)

    assert Fraction(rounded) == half_up(Fraction(dividend) / divisor, places)


@given(lake, places, modes)
def test_rounding_moves_less_than_one_step_and_only_once(amount, places, mode):
    rounded = round_amount(amount, places, mode)

    assert abs(Fraction(rounded) - Fraction(amount)) < Fraction(1, 10**places)
    assert round_amount(rounded, places, mode) == rounded


@given(lake, lake, places, modes)
def test_rounding_keeps_the_order(one, other, places, mode):
    low, high = sorted([one, other])

    assert round_amount(low, places, mode) <= round_amount(high, places, mode)


@given(lake, st.integers(-(10**6), 10**6), st.sampled_from(["UP", "DOWN", "NEAREST", "NONE"]))
def test_units_round_the_same_way_everywhere(units, shift, mode):
    moved = to_lake(units + shift)
    if moved is not None and Fraction(moved) == Fraction(units) + shift:
        assert round_units(moved, mode) == Fraction(round_units(units, mode)) + shift


@given(
    st.integers(-(10**15), 10**15),
    st.lists(prices, min_size=1, max_size=8).filter(any),
    places,
)
def test_the_parts_of_a_split_add_up_and_none_is_off_by_a_whole_step(cents, weights, places):
    amount = Decimal(cents).scaleb(-places)
    parts = split(amount, weights, places)
    step = Fraction(1, 10**places)

    assert sum(map(Fraction, parts)) == Fraction(amount)
    for part, weight in zip(parts, weights, strict=True):
        fair = Fraction(amount) * Fraction(weight) / sum(map(Fraction, weights))
        assert abs(Fraction(part) - fair) < step


@given(lake)
def test_what_is_written_is_read_back(number):
    assert parse_number(plain(number)) == number
    assert "E" not in plain(number)
