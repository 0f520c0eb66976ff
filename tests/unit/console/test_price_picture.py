"""Pictures of prices: what a quantity costs in the drawing is what a bill asks for it."""

import re
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from babel import Locale

from meterlake.console.catalogue.price_picture import price_kind, price_picture, price_pieces

ENGLISH = Locale("en")


def price(*bands, **more):
    names = ("lowerLimit", "fixedPrice", "unitPrice")
    rows = [dict(zip(names, map(Decimal, band), strict=True)) for band in bands]
    return {"pricingBands": rows, **more}


TIERED = price((0, 0, 2), (10, 0, 1), cumulative=True)
VOLUME = price((0, 0, 2), (10, 0, 1))
STAIRS = price((0, 10, 0), (5, 45, 0))


@pytest.mark.parametrize(
    ("shown", "costs"),
    [
        (TIERED, [(0, 20), (20, 25)]),
        (VOLUME, [(0, 20), (10, 15)]),
        (STAIRS, [(10, 10), (45, 45)]),
        (price((0, 5, 3)), [(5, 305)]),
    ],
    ids=["tiered", "volume", "stairstep", "one band"],
)
def test_a_band_costs_from_its_lower_limit_to_the_next_what_a_bill_asks(shown, costs):
    assert [(each.low, each.high) for each in price_pieces(shown)] == costs


def test_a_price_says_how_its_bands_work():
    assert price_kind(TIERED).startswith("tiered")
    assert price_kind(VOLUME).startswith("volume")
    assert price_kind(STAIRS).startswith("stairstep")
    assert price_kind(price((0, 0, 1))) == "one price for every unit"


def test_a_jump_and_the_minimum_are_drawn():
    drawn = price_picture("Egress", {**VOLUME, "minimumSpend": Decimal(5)}, ENGLISH, "EUR", "GB")

    assert drawn.count('class="jump"') == 1
    assert 'class="minimum"' in drawn
    assert "minimum 5" in drawn
    assert price_picture("Egress", TIERED, ENGLISH, "EUR", "GB").count('class="jump"') == 0


def test_all_of_a_drawing_is_within_it():
    drawn = str(
        price_picture("Egress", price((0, -3, "0.00001"), ("1E+9", 7, -2)), ENGLISH, "", "")
    )
    places = {name: [Decimal(each) for each in found] for name, found in _places(drawn).items()}

    assert all(0 <= each <= 640 for each in places["x"])
    assert all(0 <= each <= 220 for each in places["y"])


def _places(drawn):
    return {name: re.findall(rf' {name}[12]?="([^"]*)"', drawn) for name in ("x", "y")}


def test_names_in_a_drawing_are_only_text():
    drawn = price_picture('"><script>', TIERED, ENGLISH, "<b>", "<i>")
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, _: tags.append(tag)
    parser.feed(str(drawn))

    assert set(tags) <= {"figure", "svg", "line", "rect", "text", "title"}


def test_a_price_of_nothing_needs_no_drawing():
    assert price_picture("Free", price((0, 0, 0)), ENGLISH, "EUR", "GB") == ""
