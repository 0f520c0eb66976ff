from decimal import Decimal

import pytest

from meterlake.model.bills.bill import Quantity
from meterlake.model.catalog.plans import Pricing
from meterlake.model.values.money import ZERO
from meterlake.stages.bill.pricing.rate import CUTS, price, slice_units
from tests.billing_world import LONG_AGO, bands, decimal

D = Decimal

TWO = [(0, 0, "0.15"), (500, 0, "0.10")]
STAIRS = [(0, 12, 0), (4, 25, 0), (6, 50, 0)]
CUSTOM = [(0, 5, 2), (10, 7, 1)]


def pricing(rows, *, cumulative):
    place = {"plan_id": "0" * 8 + "-0000-4000-8000-" + "0" * 12}
    return Pricing(start_date=LONG_AGO, cumulative=cumulative, pricing_bands=bands(*rows), **place)


def quantity(value, units=None):
    return Quantity(
        account_id="a",
        meter_id="m",
        aggregation_id="g",
        aggregation_version=1,
        period=None,
        value=decimal(value),
        units=decimal(value if units is None else units),
        unit="unit",
        measurements=1,
    )


def charged(units, rows, *, cumulative):
    used = price(pricing(rows, cumulative=cumulative), quantity(units), D(1))
    return sum((each.subtotal for each in used), ZERO)


@pytest.mark.parametrize(
    ("units", "amount"),
    [
        ("0", "0"),
        ("1", "0.15"),
        ("500", "75.00"),
        ("500.000000000001", "75.0000000000001"),
        ("501", "75.10"),
        ("1000", "125"),
        ("-10", "-1.50"),
        ("-1000", "-150"),
    ],
)
def test_tiered_every_band_charges_for_its_own_part(units, amount):
    assert charged(units, TWO, cumulative=True) == D(amount)


@pytest.mark.parametrize(
    ("units", "amount"),
    [("0", "0"), ("500", "75"), ("501", "50.1"), ("-10", "-1.5"), ("0.000001", "0.00000015")],
)
def test_volume_the_highest_band_that_is_reached_charges_for_all(units, amount):
    assert charged(units, TWO, cumulative=False) == D(amount)


@pytest.mark.parametrize(
    ("units", "amount"),
    [(0, 0), ("0.1", 12), (4, 12), ("4.000000000001", 25), (6, 25), (7, 50), (10**9, 50), (-3, 0)],
)
def test_stairstep_a_value_at_an_edge_belongs_to_the_lower_step(units, amount):
    assert charged(units, STAIRS, cumulative=False) == decimal(amount)


@pytest.mark.parametrize(
    ("units", "tiered", "volume"),
    [(0, 0, 0), (1, 7, 7), (10, 25, 25), (11, 33, 18), (20, 42, 27), (-1, -2, -2)],
)
def test_custom_kinds_charge_the_fixed_price_of_every_or_of_the_reached_band(units, tiered, volume):
    assert charged(units, CUSTOM, cumulative=True) == tiered
    assert charged(units, CUSTOM, cumulative=False) == volume


def test_bands_tell_what_each_of_them_charges():
    rows = [(0, 1, "0.15"), (500, 3, "0.10")]
    used = price(pricing(rows, cumulative=True), quantity(650_000, units=650), D(1000))

    assert [
        (each.lower_limit, each.units, each.quantity, each.fixed_price, each.unit_subtotal)
        for each in used
    ] == [(0, 500, 500_000, 1, D("75.00")), (500, 150, 150_000, 3, D("15.00"))]
    assert [each.subtotal for each in used] == [76, 18]


def test_what_rounding_added_to_the_units_is_no_quantity():
    used = price(pricing([(0, 0, 1), (50, 0, 1)], cumulative=True), quantity(48_900, 98), D(500))

    assert [each.units for each in used] == [50, 48]
    assert [each.quantity for each in used] == [25_000, 23_900]


def test_no_units_reach_no_band():
    assert price(pricing(CUSTOM, cumulative=True), quantity(0), D(1)) == ()
    assert price(pricing(CUSTOM, cumulative=False), quantity("0.3", units=0), D(1)) == ()


def test_bands_keep_their_own_ids():
    rows = bands((0, 0, 1))
    named = Pricing(start_date=LONG_AGO, plan_id=None, pricing_bands=[{**rows[0], "id": "first"}])

    assert price(named, quantity(1), D(1))[0].band_id == "first"


def test_a_sum_of_many_digits_stays_exact():
    rows = [(0, 0, "0.00000000000000000001"), ("33333333333333333333333333", 0, "0.1")]

    assert charged("9" * 26 + ".999999999999", rows, cumulative=True) == (
        D("33333333333333333333333333") * D("0.00000000000000000001")
        + D("66666666666666666666666666.999999999999") / 10
    )


def test_bands_that_do_not_begin_at_zero_are_a_mistake_of_the_caller():
    for cumulative in CUTS:
        with pytest.raises(AssertionError):
            slice_units(
                D(1), pricing([(1, 0, 1)], cumulative=True).pricing_bands, cumulative=cumulative
            )
