from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.bills.bill import Quantity
from meterlake.model.catalog.plans import Pricing
from meterlake.stages.bill.pricing.rate import convert_bands, price
from tests import oracles
from tests.billing_world import LONG_AGO

# Units have up to 12 decimals, prices up to 8; bands rise in steps of a thousandth or more.
units = st.decimals(0, 10**9, places=12)
signed_units = st.decimals(-(10**6), 10**9, places=12)
prices = st.decimals(0, 1000, places=8)
widths = st.decimals("0.001", 10**6, places=3)
ORACLES = {True: oracles.tiered, False: oracles.volume}


@dataclass(frozen=True)
class Band:
    lower: Decimal
    fixed: Decimal
    unit_price: Decimal

    @property
    def fractions(self):
        return Fraction(self.lower), Fraction(self.fixed), Fraction(self.unit_price)


@st.composite
def bands(draw):
    count = draw(st.integers(1, 6))
    lowers = [Decimal(0)]
    for _ in range(count - 1):
        lowers.append(lowers[-1] + draw(widths))
    return [Band(lower, draw(prices), draw(prices)) for lower in lowers]


def priced(units, bands, *, cumulative):
    pricing = Pricing(
        start_date=LONG_AGO,
        cumulative=cumulative,
        pricing_bands=[
            {"lowerLimit": each.lower, "fixedPrice": each.fixed, "unitPrice": each.unit_price}
            for each in bands
        ],
    )
    quantity = Quantity("a", "m", "g", 1, None, units, units, "unit", 1)
    return price(pricing, quantity, Decimal(1))


def amount(units, bands, *, cumulative):
    return sum(Fraction(each.subtotal) for each in priced(units, bands, cumulative=cumulative))


@given(signed_units, bands(), st.booleans())
def test_amounts_are_those_of_plain_arithmetic(units, bands, cumulative):
    expected = ORACLES[cumulative](Fraction(units), [each.fractions for each in bands])

    assert amount(units, bands, cumulative=cumulative) == expected


@given(bands(), st.booleans(), st.data())
def test_amounts_at_an_edge_are_those_of_plain_arithmetic(bands, cumulative, data):
    units = data.draw(st.sampled_from(bands)).lower
    expected = ORACLES[cumulative](Fraction(units), [each.fractions for each in bands])

    assert amount(units, bands, cumulative=cumulative) == expected


@given(signed_units, bands(), st.booleans(), st.data())
def test_splitting_a_band_changes_no_amount(units, bands, cumulative, data):
    at = data.draw(st.integers(0, len(bands) - 1))
    band = bands[at]
    upper = bands[at + 1].lower if at + 1 < len(bands) else band.lower + 1
    fixed = Decimal(0) if cumulative else band.fixed  # tiered charges what is reached only once
    split = Band((band.lower + upper) / 2, fixed, band.unit_price)
    more = [*bands[: at + 1], split, *bands[at + 1 :]]

    assert amount(units, more, cumulative=cumulative) == amount(units, bands, cumulative=cumulative)


@given(units, units, bands())
def test_more_usage_never_costs_less_when_bands_add_up(first, more, bands):
    assert amount(first + more, bands, cumulative=True) >= amount(first, bands, cumulative=True)


@given(units, units, bands())
def test_more_usage_never_costs_less_within_bands_that_do_not_get_cheaper(first, more, bands):
    dearer = [
        Band(each.lower, fixed, unit_price)
        for each, fixed, unit_price in zip(
            bands,
            sorted(band.fixed for band in bands),
            sorted(band.unit_price for band in bands),
            strict=True,
        )
    ]

    assert amount(first + more, dearer, cumulative=False) >= amount(first, dearer, cumulative=False)


@given(signed_units, bands(), st.booleans())
def test_bands_share_all_units_and_all_of_the_quantity(units, bands, cumulative):
    used = priced(units, bands, cumulative=cumulative)

    assert sum(Fraction(each.units) for each in used) == Fraction(units)
    assert sum(Fraction(each.quantity) for each in used) == Fraction(units)
    assert [each.lower_limit for each in used] == sorted({each.lower_limit for each in used})


@given(units, bands())
def test_one_band_is_the_same_tiered_and_volume(units, bands):
    single = bands[:1]

    assert amount(units, single, cumulative=True) == amount(units, single, cumulative=False)


@given(signed_units, bands(), st.booleans(), st.decimals("0.0001", 1000, places=6))
def test_bands_in_another_currency_add_up_by_their_own_prices(units, bands, cumulative, multiplier):
    """Whoever is shown units, prices and fixed prices comes to what each band charges."""
    own = priced(units, bands, cumulative=cumulative)
    converted = convert_bands(own, multiplier)

    for before, after in zip(own, converted, strict=True):
        by_units = Fraction(after.units) * Fraction(after.unit_price)
        assert by_units == Fraction(after.unit_subtotal)
        assert by_units + Fraction(after.fixed_price) == Fraction(after.subtotal)
        assert Fraction(after.subtotal) == Fraction(before.subtotal) * Fraction(multiplier)
