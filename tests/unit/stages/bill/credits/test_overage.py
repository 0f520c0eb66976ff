"""Usage beyond commitments and balances."""

from decimal import Decimal

import pytest

from meterlake.model.catalog.plans import PricingBand
from meterlake.stages.bill.credits.draw_downs import draw_down
from meterlake.stages.bill.credits.overage import UsageToSplit, find_overage, split_overage
from meterlake.stages.bill.pricing.currencies import Amount
from tests.unit.stages.bill.credits.test_draw_downs import TERMS, balance, commitment, line

D = Decimal


def bands(*prices):
    """Bands of (lower limit, unit price) or (lower limit, unit price, fixed price)."""
    return [
        PricingBand(
            lower_limit=D(each[0]),
            unit_price=D(each[1]),
            fixed_price=D((each[2:] and each[2]) or 0),
        )
        for each in prices
    ]


def surcharges(lines, *sources):
    found = find_overage(draw_down(lines, sources, TERMS))
    return [
        (
            each.source.id,
            {key.line: str(rest) for key, rest in each.amounts.items()},
            each.surcharge,
        )
        for each in found
    ]


def test_what_a_source_left_is_charged_more():
    found = surcharges([line(1, 110)], commitment(left=100, surcharge=D(10)))

    assert found == [("c", {1: "10.00"}, Amount(D("100.00"), 100))]


def test_a_discount_is_below_0():
    [(_, _, amount)] = surcharges([line(1, 110)], commitment(left=100, surcharge=D(-5)))

    assert amount == Amount(D("-50.00"), 100)


@pytest.mark.parametrize(
    "source",
    [
        {"left": 500},
        {"left": 110},
        {"left": 0, "was_filled": False},
        {"left": 100, "start": "02-01"},
        {"left": 100, "overdraft": True},
        {"left": 100, "line_types": frozenset({"MINIMUM_SPEND"})},
    ],
)
def test_there_is_no_overage(source):
    assert surcharges([line(1, 110)], balance(surcharge=D(10), **source)) == []


def test_other_lines_than_usage_know_no_overage():
    lines = [line(1, 110, type="STANDING_CHARGE")]

    assert surcharges(lines, commitment(left=100, surcharge=D(10))) == []


def test_the_last_exhausted_source_decides():
    sources = [
        commitment("a", 10, end="12-30", surcharge=D(10)),
        balance("b", 20, surcharge=D(20)),
        balance("c", 0, surcharge=D(30), was_filled=False),
    ]

    assert surcharges([line(1, 110)], *sources) == [("b", {1: "80.00"}, Amount(D("1600.00"), 100))]


def test_each_line_has_its_own_last_source_and_each_source_one_surcharge():
    sources = [
        commitment("a", 10, surcharge=D(10)),
        commitment("b", 0, product_ids=frozenset({"p"}), surcharge=D(20)),
    ]
    lines = [line(1, 20), line(2, 40, product_id="p"), line(3, 5)]

    assert surcharges(lines, *sources) == [
        ("a", {1: "10.00", 3: "5"}, Amount(D("150.00"), 100)),
        ("b", {2: "40"}, Amount(D("800"), 100)),
    ]


@pytest.mark.parametrize(("drawn_before", "name"), [(2, "b"), (0, "c")])
def test_a_rollover_that_paid_before_is_exhausted_also_by_an_overdraft(drawn_before, name):
    """The overdraft of the balance took the rest of it, and more."""
    rollover = {"was_filled": False, "rollover": True, "drawn_before": D(drawn_before)}
    sources = [
        commitment("c", 10, surcharge=D(10)),
        balance("b", -drawn_before, surcharge=D(20), **rollover),
    ]

    assert [found for found, *_ in surcharges([line(1, 110)], *sources)] == [name]


def test_the_rollover_takes_the_last_of_a_balance_whose_currency_is_coarse():
    """Three yen pay for 0.03, which is two; the rollover takes the third, and none is left."""
    yen = {"rate": D("0.0125"), "places": 0, "surcharge": D(10)}
    own = balance("b", 3, end="01-16", **yen)
    rollover = balance("b", 3, "01-16", rollover=True, **yen)

    assert surcharges([line(1, 62)], own, rollover) == [
        ("b", {1: "29.97"}, Amount(D("299.70"), 100)),
        ("b", {1: "31.99"}, Amount(D("319.90"), 100)),
    ]


def test_a_part_after_the_end_of_a_source_is_no_overage():
    found = surcharges(
        [line(1, 310)], balance("b", 100, end="01-16", surcharge=D(10)), commitment("c", 0, "02-01")
    )

    assert [(name, rest) for name, rest, _ in found] == [("b", {1: "50.00"})]


def split(units, amount, uncovered, prices, *, cumulative=True, overage=()):
    found = split_overage(
        UsageToSplit(D(units), D(amount), D(uncovered), bands(*prices), cumulative, bands(*overage))
    )
    return str(found.covered_units), str(found.covered_amount), str(found.overage_units)


def test_units_are_split_in_the_band_in_which_the_source_ran_dry():
    # 100 at 1.00, then 0.50: 120 pay for 140 units.
    assert split(200, 150, 30, [(0, 1), (100, "0.5")]) == ("140.0000000000", "120", "60.0000000000")


def test_nothing_paid_leaves_all_units_beyond():
    assert split(200, 150, 150, [(0, 1), (100, "0.5")]) == ("0", "0", "200")


def test_a_fixed_price_that_is_paid_in_part_buys_no_unit_of_its_band():
    prices = [(0, 1), (100, 1, 50)]

    assert split(200, 250, 120, prices)[0] == "100"
    assert split(200, 250, 90, prices)[0] == "110.0000000000"


def test_units_without_a_price_come_with_those_before():
    assert split(300, 200, 50, [(0, 1), (100, 0), (200, 1)])[0] == "250.0000000000"


def test_a_line_in_another_currency_is_split_where_its_own_bands_have_charged():
    # 200 of the pricing's currency are 250 of the bill's; 125 are 100, which pay for 50 units.
    found = split_overage(
        UsageToSplit(D(150), D(250), D(125), bands((0, 2), (50, 1)), True, rate=D("1.25"))
    )

    assert found.covered_units == 50


@pytest.mark.parametrize(
    ("prices", "cumulative"), [([(0, 1), (100, "0.75")], False), ([(0, -1), (100, 4)], True)]
)
def test_units_that_an_amount_does_not_tell_are_split_in_proportion(prices, cumulative):
    found = split(200, 150, 50, prices, cumulative=cumulative)

    assert found == ("133.3333333333", "100", "66.6666666667")


def test_units_beyond_are_priced_from_zero_by_bands_of_their_own():
    found = split_overage(
        UsageToSplit(D(200), D(200), D(50), bands((0, 1)), True, bands((0, 3), (20, 2)))
    )

    assert [(each.band.unit_price, each.units) for each in found.slices] == [
        (D(3), D(20)),
        (D(2), D(30)),
    ]


def test_without_such_bands_they_keep_what_they_cost():
    found = split_overage(UsageToSplit(D(200), D(200), D(50), bands((0, 1)), True))

    assert (found.overage_amount, found.slices) == (D(50), None)


def test_free_units_are_beyond_sources_that_were_dry_before():
    """The first 28 units cost nothing; 71 units cost 43 x 1."""
    free = {
        "units": D(71),
        "amount": D(43),
        "bands": bands((0, 0), (28, 1)),
        "overage_bands": bands((0, 2)),
        "cumulative": True,
    }
    dry = split_overage(UsageToSplit(uncovered=D(43), **free))
    assert (dry.covered_units, dry.overage_units) == (0, 71)

    paid = split_overage(UsageToSplit(uncovered=D(42), **free))
    assert (paid.covered_units, paid.overage_units) == (29, 42)
