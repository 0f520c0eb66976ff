from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.catalog.lookup_keys import KEY_MAX, item_of, join_key, key_in_path, split
from meterlake.model.catalog.lookups import LookupTableRevision
from meterlake.model.errors import Invalid, Required

REVISION = LookupTableRevision.from_wire(
    {
        "lookupTableId": "00000000-0000-4000-8000-000000000000",
        "name": "First",
        "fields": [
            {"type": "STRING", "name": "country"},
            {"type": "NUMBER", "name": "year"},
            {"type": "NUMBER", "name": "rate"},
            {"type": "STRING", "name": "note"},
        ],
        "keys": ["country", "year"],
    }
)


@given(st.lists(st.text(), min_size=1, max_size=5))
def test_a_key_is_taken_apart_into_what_it_was_made_of(values):
    assert split(join_key(values)) == values


@pytest.mark.parametrize("word", ["jobs", "copy", "archived", "generateuploadurl", ".", ".."])
def test_a_key_is_never_a_word_of_the_path(word):
    assert join_key([word]) != word


def test_a_key_holds_nothing_that_means_something_in_a_path():
    assert join_key(["50%/a?b#c"]) == r"50\x25\x2Fa\x3Fb\x23c"


@pytest.mark.parametrize(
    "text", ["US", "US,2026,1", "US,soon", "US,", "US,NaN", "US,1e99", "\x00,1"]
)
def test_a_path_that_names_no_key_is_refused(text):
    with pytest.raises(Invalid, match="lookupKey"):
        key_in_path(REVISION, text)


@pytest.mark.parametrize("text", ["US,2026", "US,2026.0", "US,+2.026e3", r"U\S,2026"])
def test_a_key_has_one_way_to_be_written(text):
    assert key_in_path(REVISION, text) == "US,2026"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"planet": 1}, r"items\[0\].planet: 1"),
        ({"country": 1}, r"items\[0\].country: 1 .* text"),
        ({"rate": "1"}, r"items\[0\].rate: '1' .* a number"),
        ({"rate": True}, r"items\[0\].rate: true .* a number"),
        ({"note": "n" * 5001}, r"items\[0\].note"),
        ({"note": "\x00"}, r"items\[0\].note"),
        ({"country": "c" * KEY_MAX}, "a key of at most 500"),
    ],
)
def test_an_item_that_does_not_fit_is_refused(changes, place):
    with pytest.raises(Invalid, match=place):
        item_of(REVISION, "items[0]", {"country": "US", "year": 2026, **changes})


@pytest.mark.parametrize("changes", [{"country": None}, {"country": ""}, {"year": None}])
def test_an_item_has_its_whole_key(changes):
    with pytest.raises(Required):
        item_of(REVISION, "items[0]", {"country": "US", "year": 2026, **changes})


def test_an_item_is_a_map():
    with pytest.raises(Invalid, match="a map of fields"):
        item_of(REVISION, "items[0]", ["US"])


def test_an_item_has_exact_numbers_and_may_lack_values():
    item = {"country": "U,S", "year": Decimal("2026.0"), "rate": Decimal("0.10"), "note": None}

    key, kept = item_of(REVISION, "items[0]", {**item, "lookupKey": "what it was read with"})

    assert key == r"U\,S,2026"
    assert kept == {"country": "U,S", "year": 2026, "rate": Decimal("0.1")}
