import re
from decimal import Decimal, DivisionByZero, FloatOperation, Inexact
from pathlib import Path

import pytest

from meterlake.model.values.money import (
    LAKE_INTEGER_DIGITS,
    QUOTIENT_DIGITS,
    ZERO,
    Rounding,
    RoundingMode,
    divide,
    exact,
    parse_number,
    plain,
    round_amount,
    round_quotient,
    round_units,
    split,
    to_lake,
)

D = Decimal


def test_an_operation_that_would_lose_a_digit_raises():
    with exact(), pytest.raises(Inexact):
        D(1) / D(3)
    with exact():
        assert D("99999999999999999999999999.999999999999") * D("0.00000000000000000001") > 0


def test_a_float_is_refused_where_it_meets_a_decimal():
    with exact(), pytest.raises(FloatOperation):
        assert D(1) < 1.5
    with exact(), pytest.raises(FloatOperation):
        D(0.5)


def test_exactness_ends_with_the_block_even_after_an_error():
    with pytest.raises(Inexact), exact():
        D(1) / D(3)
    assert D(1) / D(3) > 0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", "7"),
        ("+7.50", "7.5"),
        ("-0", "0"),
        ("1e3", "1000"),
        ("1E-12", "0.000000000001"),
        ("0.0000000000005", "0"),  # half-even
        ("0.0000000000015", "0.000000000002"),
        ("-0.0000000000001", "0"),
        ("1e-9999", "0"),
        ("0e9999", "0"),
        ("9" * 26 + ".999999999999", "9" * 26 + ".999999999999"),
        ("0" * 50 + "1", "1"),
        ("0." + "1" * 5000, "0.111111111111"),
    ],
)
def test_numbers_are_read_to_the_lakes_twelve_decimals(text, number):
    read = parse_number(text)

    assert read == D(number)
    assert f"{read:f}" == f"{D(number):.12f}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 7",
        "7 ",
        "1_000",
        "1,5",
        ".5",
        "5.",
        "0x1",
        "NaN",
        "inf",
        "١٢",
        "--1",
        "1e",
        "1e12345",
        "1" + "0" * 26,
        "1e26",
        "9" * 26 + ".9999999999999",
        "7\n",
        "1e9999",
    ],
)
def test_what_is_no_number_or_does_not_fit_is_none(text):
    assert parse_number(text) is None


@pytest.mark.parametrize("number", [D("NaN"), D("-Infinity"), D("1e26"), D("sNaN")])
def test_the_lake_takes_only_finite_numbers_that_fit(number):
    assert to_lake(number) is None


def test_the_lake_knows_no_negative_zero():
    assert str(to_lake(D("-0.0"))) == "0E-12"


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"),
    [
        ("1", "8", "0.125"),
        ("2", "3", "0.66666666666666666667"),
        ("-2", "3", "-0.66666666666666666667"),
        ("48900", "500", "97.8"),
        ("0", "7", "0"),
        ("1", "1024", "0.0009765625"),
        # Exact, although it has more than twenty digits.
        ("12345678901234567890123.5", "2", "6172839450617283945061.75"),
        ("9" * 26, "3", "3" * 26),
        ("1e25", "3", "3333333333333333333300000"),
    ],
)
def test_a_quotient_is_exact_where_it_ends_and_has_twenty_digits_where_it_does_not(
    dividend, divisor, quotient
):
    assert divide(D(dividend), D(divisor)) == D(quotient)
    assert QUOTIENT_DIGITS == 20


def test_an_endless_quotient_is_rounded_half_even():
    # 1/6 twenty digits in: ...66667; a remainder of exactly one half cannot be endless.
    assert divide(D(1), D(6)) == D("0.16666666666666666667")


@pytest.mark.parametrize("dividend", ["1", "0"])
def test_nothing_is_divided_by_zero(dividend):
    with pytest.raises(DivisionByZero):
        divide(D(dividend), ZERO)


@pytest.mark.parametrize(
    ("units", "up", "down", "nearest"),
    [
        ("97.8", 98, 97, 98),
        ("5.1", 6, 5, 5),
        ("3.5", 4, 3, 4),
        ("2.5", 3, 2, 3),
        ("4", 4, 4, 4),
        ("0", 0, 0, 0),
        ("0.000000000001", 1, 0, 0),
        ("-0.4", 0, -1, 0),
        ("-3.5", -3, -4, -3),
        ("-5.1", -5, -6, -5),
        ("99999999999999999999999999.5", 10**26, 10**26 - 1, 10**26),
    ],
)
def test_units_are_rounded_to_whole_ones(units, up, down, nearest):
    rounded = [round_units(D(units), mode) for mode in ("UP", "DOWN", "NEAREST", "NONE")]

    assert rounded == [up, down, nearest, D(units)]
    assert not any(each.is_signed() for each in rounded[:3] if not each)


def test_the_documented_units_are_right():
    page = (Path(__file__).parents[4] / "docs" / "calculations.md").read_text("utf-8")
    number = r"([\d.\N{MINUS SIGN}]+)"
    rows = re.findall(rf"^\| {number} \| {number} \| {number} \| {number} \|$", page, re.MULTILINE)

    assert len(rows) == 5
    for row in rows:
        units, *rounded = (D(each.replace("\N{MINUS SIGN}", "-")) for each in row)
        assert rounded == [round_units(units, mode) for mode in ("UP", "DOWN", "NEAREST")]


def test_rounding_modes_are_taken_as_the_members_they_are():
    assert round_units(D("1.2"), Rounding.UP) == 2


@pytest.mark.parametrize(
    ("mode", "rounded"),
    [  # the table of java.math.RoundingMode, in cents
        ("UP", "5.6 2.6 1.7 1.1 1.0 -1.0 -1.1 -1.7 -2.6 -5.6"),
        ("DOWN", "5.5 2.5 1.6 1.1 1.0 -1.0 -1.1 -1.6 -2.5 -5.5"),
        ("CEILING", "5.6 2.6 1.7 1.1 1.0 -1.0 -1.1 -1.6 -2.5 -5.5"),
        ("FLOOR", "5.5 2.5 1.6 1.1 1.0 -1.0 -1.1 -1.7 -2.6 -5.6"),
        ("HALF_UP", "5.6 2.6 1.6 1.1 1.0 -1.0 -1.1 -1.6 -2.6 -5.6"),
        ("HALF_DOWN", "5.5 2.5 1.6 1.1 1.0 -1.0 -1.1 -1.6 -2.5 -5.5"),
        ("HALF_EVEN", "5.6 2.6 1.6 1.1 1.0 -1.0 -1.1 -1.6 -2.6 -5.6"),
    ],
)
def test_money_is_rounded_as_in_java(mode, rounded):
    amounts = ["5.55", "2.55", "1.61", "1.10", "1.00", "-1.00", "-1.10", "-1.61", "-2.55", "-5.55"]

    assert [round_amount(D(each), 1, mode) for each in amounts] == [*map(D, rounded.split())]


def test_half_even_goes_to_the_even_neighbour():
    assert [round_amount(D(x), 0, RoundingMode.HALF_EVEN) for x in ("0.5", "1.5", "2.5")] == [
        0,
        2,
        2,
    ]


def test_every_mode_rounds():
    for mode in set(RoundingMode) - {RoundingMode.UNNECESSARY}:
        assert round_amount(D("1.00"), 2, mode) == 1


def test_a_currency_that_is_never_rounded_refuses_to_lose_a_digit():
    assert str(round_amount(D("1.5"), 2, RoundingMode.UNNECESSARY)) == "1.50"
    with pytest.raises(Inexact):
        round_amount(D("1.505"), 2, RoundingMode.UNNECESSARY)
    with pytest.raises(Inexact):
        round_quotient(D(1), 3, 5, RoundingMode.UNNECESSARY)


def test_a_rounded_amount_is_never_minus_zero():
    assert str(round_amount(D("-0.001"), 2, RoundingMode.HALF_UP)) == "0.00"


def test_a_prorated_amount_is_rounded_as_if_all_its_digits_were_known():
    # 20 digits of this quotient are exactly one half; the whole of it is a little less.
    dividend = D("14.99999999999999999999999")

    assert str(divide(dividend, D(3))).startswith("5.0000000000000000000")
    assert round_quotient(dividend, 3, 0, RoundingMode.DOWN) == 4
    assert round_quotient(dividend / 10, 3, 0, RoundingMode.HALF_UP) == 0


@pytest.mark.parametrize(
    ("amount", "weights", "parts"),
    [
        ("100", "1 1 1", "34 33 33"),
        ("-100", "1 1 1", "-34 -33 -33"),
        ("0.05", "1 1", "0.03 0.02"),
        ("10", "0 1 0", "0 10 0"),
        ("1", "3 1 1 1", "0.50 0.17 0.17 0.16"),
        ("0", "1 2", "0 0"),
        ("0.01", "0.2 0.3 0.5", "0 0 0.01"),
    ],
)
def test_the_parts_of_a_split_add_up(amount, weights, parts):
    places = 0 if amount in {"100", "-100"} else 2
    found = split(D(amount), [*map(D, weights.split())], places)

    assert found == [*map(D, parts.split())]
    assert sum(found) == D(amount)


def test_weights_of_any_length_split_exactly():
    weights = [D("0." + "1" * 35), D("1e30"), D("1e-30")]

    assert sum(split(D("99999999999999.99"), weights, 2)) == D("99999999999999.99")


@pytest.mark.parametrize(
    ("amount", "weights"), [("1", []), ("1", ["0"]), ("1", ["2", "-1"]), ("0.001", ["1"])]
)
def test_what_cannot_be_split_is_a_mistake_of_the_caller(amount, weights):
    with pytest.raises(AssertionError):
        split(D(amount), [*map(D, weights)], 2)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1E+3", "1000"),
        ("0.100", "0.1"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("0E+3", "0"),
        ("1E-12", "0.000000000001"),
        ("100", "100"),
        ("-12.50", "-12.5"),
        ("12345678901234567890123456789.123", "12345678901234567890123456789.123"),
    ],
)
def test_plain_digits(number, text):
    assert plain(D(number)) == text


def test_the_lake_holds_twenty_six_integer_digits():
    assert LAKE_INTEGER_DIGITS == 26
