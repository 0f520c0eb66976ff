"""Account codes: known ones, new ones, near misses."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.values.ids import is_code
from meterlake.stages.ingest.validate.account_codes import AccountCodes, NewAccounts, squeeze

KNOWN = {"acme": "id-acme", "Bolt AG": "id-bolt", "twin": "id-1", "TWIN": "id-2"}
CODES = AccountCodes("org", KNOWN)


def ids(*codes):
    return CODES.ids(pl.Series(codes, dtype=pl.String))[0].to_list()


def test_a_known_code_has_the_id_of_its_account():
    assert ids("acme", None, "Bolt AG", "acme") == ["id-acme", None, "id-bolt", "id-acme"]


def test_codes_that_exist_may_be_near_each_other():
    assert ids("twin", "TWIN", "Twin") == ["id-1", "id-2", None]


def test_a_near_miss_of_a_known_code_has_no_id():
    assert ids("Acme", "ac me", "bolt ag", "BOLTAG", "Bolt\u00a0AG") == [None] * 5


def test_what_can_be_no_code_has_no_id():
    assert ids("", " x", "x ", "a\tb", "a\x00b", "n" * 81) == [None] * 6


def test_a_new_code_has_the_id_that_its_account_will_get_on_every_machine():
    (first,) = ids("new")

    assert first == AccountCodes("org", {}).new_id("new") == CODES.new_id("new")
    assert first != AccountCodes("other org", {}).new_id("new")


def test_the_unknown_codes_come_once_in_the_order_of_their_first_use():
    codes = pl.Series(["z", "acme", "a", "z", "b", "a"])

    assert CODES.unknown(codes) == ["z", "a", "b"]


def test_of_new_codes_that_are_near_each_other_the_first_is_admitted():
    accounts = NewAccounts()

    assert accounts.admit(["neu", "x"]) == []
    assert accounts.admit(["NEU", "y", "n eu", "neu"]) == ["NEU", "n eu"]
    assert list(accounts.codes) == ["neu", "x", "y"]


@given(st.lists(st.text("aA b\tß", max_size=4), max_size=8))
def test_every_code_is_known_new_or_near(codes):
    for code, found in zip(codes, ids(*codes), strict=True):
        near = squeeze(code) in {squeeze(known) for known in KNOWN}
        assert (found is not None) == (code in KNOWN or (is_code(code) and not near))
