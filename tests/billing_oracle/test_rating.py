"""Prices, quantities and money: printed examples, and laws against the decimal module."""

import decimal
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_oracle.money import round_to, split
from tests.billing_oracle.quantities import evaluate, passes, segment_of
from tests.billing_oracle.rating import (
    Band,
    invert_tiered,
    price,
    price_tiered,
    read_bands,
    units_of,
)
from tests.billing_oracle.world import CannotBill
from tests.laws import examples

MODES = ["UP", "DOWN", "CEILING", "FLOOR", "HALF_UP", "HALF_DOWN", "HALF_EVEN"]
NUMBERS = st.decimals(-1000, 1000, places=4)
AMOUNTS = st.decimals(0, 1000, places=3).map(Fraction)


def bands(*rows: tuple[float | str, float | str, float | str]) -> list[Band]:
    names = ("lowerLimit", "fixedPrice", "unitPrice")
    return read_bands([dict(zip(names, row, strict=True)) for row in rows])


@st.composite
def rising_bands(draw: st.DrawFn) -> list[Band]:
    limits = sorted({Fraction(0), *draw(st.lists(AMOUNTS, max_size=3))})
    return [Band(limit, draw(AMOUNTS), draw(AMOUNTS)) for limit in limits]


@settings(max_examples=examples(100), deadline=None)
@given(NUMBERS, st.integers(0, 3), st.sampled_from(MODES))
def test_rounding_is_that_of_the_decimal_module(number: Decimal, places: int, mode: str) -> None:
    expected = number.quantize(
        Decimal(1).scaleb(-places), rounding=getattr(decimal, f"ROUND_{mode}")
    )
    assert round_to(Fraction(number), places, mode) == Fraction(expected)


def test_rounding_can_be_forbidden() -> None:
    assert round_to(Fraction(5, 4), 2, "UNNECESSARY") == Fraction(5, 4)
    with pytest.raises(CannotBill, match="forbids"):
        round_to(Fraction(1, 3), 2, "UNNECESSARY")


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(-999, 999), st.lists(st.integers(0, 50), min_size=1, max_size=6))
def test_parts_add_up_and_are_within_a_cent_of_their_shares(cents: int, weights: list[int]) -> None:
    unit, amount = Fraction(1, 100), Fraction(cents, 100)
    parts = split(amount, [Fraction(weight) for weight in weights], unit)
    assert sum(parts) == amount
    for part, weight in zip(parts, weights, strict=True):
        if sum(weights):
            assert abs(part - amount * weight / sum(weights)) < unit


def test_ties_of_largest_remainders_go_to_the_earlier_part() -> None:
    unit = Fraction(1, 100)
    assert split(Fraction(1), [Fraction(1)] * 3, unit) == [
        Fraction(34, 100),
        Fraction(33, 100),
        Fraction(33, 100),
    ]
    assert split(Fraction(5), [Fraction(0)] * 2, unit) == [5, 0]


@settings(max_examples=examples(100), deadline=None)
@given(rising_bands(), AMOUNTS, AMOUNTS)
def test_inverting_a_tiered_price_gives_the_most_units_for_the_amount(
    found: list[Band], units: Fraction, amount: Fraction
) -> None:
    affordable = invert_tiered(amount, found, units)
    assert affordable is not None
    assert 0 <= affordable <= units
    assert price_tiered(affordable, found) <= amount
    if affordable < units:
        assert price_tiered(affordable + Fraction(1, 10**9), found) > amount


@settings(max_examples=examples(60), deadline=None)
@given(rising_bands(), AMOUNTS)
def test_cutting_a_band_in_two_changes_no_tiered_price(found: list[Band], units: Fraction) -> None:
    last = found[-1]
    extra = Band(last.lower + 1, Fraction(0), last.unit)
    assert price_tiered(units, [*found, extra]) == price_tiered(units, found)


@pytest.mark.parametrize(
    ("units", "cumulative", "rows", "expected"),
    [
        # The first 500 GB at 0.15, then 0.10.
        (700, True, [(0, 0, "0.15"), (500, 0, "0.10")], "95"),
        # Seats: up to 20 at 2, all of them at 3 from 21.
        (20, False, [(0, 0, 2), (20, 0, 3)], "40"),
        (21, False, [(0, 0, 2), (20, 0, 3)], "63"),
        # Stairstep: up to 4 seconds 12, up to 6 seconds 25, above 50.
        (4, False, [(0, 12, 0), (4, 25, 0), (6, 50, 0)], "12"),
        (6, False, [(0, 12, 0), (4, 25, 0), (6, 50, 0)], "25"),
        ("6.5", False, [(0, 12, 0), (4, 25, 0), (6, 50, 0)], "50"),
        # Custom tiered: the fixed price of each band that is reached.
        (15, True, [(0, 5, 1), (10, 7, 2)], "32"),
        (15, False, [(0, 5, 1), (10, 7, 2)], "37"),
        (0, True, [(0, 5, 1)], "0"),
        (-3, True, [(0, 5, 1), (10, 7, 2)], "-3"),
    ],
)
def test_prices_by_bands(
    units: object, cumulative: bool, rows: list[tuple[str, str, str]], expected: str
) -> None:
    assert price(Fraction(str(units)), bands(*rows), cumulative=cumulative) == Fraction(expected)


@pytest.mark.parametrize(
    ("quantity", "per_unit", "rounding", "expected"),
    [
        ("48900", 500, "UP", 98),
        ("5.1", 1, "NEAREST", 5),
        ("3.5", 1, "NEAREST", 4),
        ("7.9", 1, "DOWN", 7),
    ],
)
def test_units_are_quantities_divided_then_rounded(
    quantity: str, per_unit: int, rounding: str, expected: int
) -> None:
    aggregation = {"quantityPerUnit": per_unit, "rounding": rounding}
    assert units_of(Fraction(quantity), aggregation) == expected


def test_98_units_at_a_quarter_cost_24_50() -> None:
    assert price(Fraction(98), bands((0, 0, "0.25")), cumulative=True) == Fraction("24.5")


def test_a_calculation_has_the_usual_precedence_and_null_in_gives_null_out() -> None:
    values = {"a": Fraction(100), "b": Fraction(3), "none": None}
    assert evaluate("aggregation.a - aggregation.b*20/60", values) == 99
    assert evaluate("-(aggregation.a + 2)", values) == -102
    assert evaluate("aggregation.none * 0", values) is None
    assert evaluate("aggregation.a / 0", values) is None


def test_includes_are_an_or_within_a_dimension_and_excludes_come_after() -> None:
    def keep(row: dict[str, dict[str, str]], *filters: tuple[str, str, str]) -> bool:
        names = ("dimensionCode", "mode", "value")
        return passes(row, [dict(zip(names, found, strict=True)) for found in filters])

    row = {"what": {"s": "one"}, "where": {"r": "eu"}}
    both = [("s", "INCLUDE", "one"), ("s", "INCLUDE", "two")]
    assert keep(row, *both)
    assert not keep(row, *both, ("r", "INCLUDE", "us"))
    assert not keep(row, *both, ("r", "EXCLUDE", "eu"))
    assert not keep(row, ("other", "INCLUDE", "x"))
    assert keep(row, ("other", "EXCLUDE", "x"))


def test_the_more_exact_segment_wins() -> None:
    segments = [{"r": "*"}, {"r": "eu"}, {"r": "eu", "s": "one"}, {"s": "one"}]
    aggregation = {"segmentedFields": ["r", "s"], "segments": segments}
    for texts, number in (
        ({"r": "eu", "s": "one"}, 2),
        ({"r": "eu"}, 1),
        ({"r": "us", "s": "one"}, 3),
        ({}, 0),
    ):
        assert segment_of({"what": texts}, aggregation) == segments[number]
