"""A packed list is a list that takes less memory."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.stores.state.billing.accounts.buckets import PackedList

ITEMS = st.lists(st.integers() | st.text(max_size=5) | st.decimals(allow_nan=False), max_size=40)


@given(ITEMS, st.integers(0, 3))
def test_it_is_the_list_of_what_was_added(items, times):
    many = items * (1 + 400 * times)
    packed = PackedList(many)

    assert len(packed) == len(many)
    assert list(packed) == many
    assert packed == many
    assert packed[-3:] == many[-3:]
    assert packed != [*many, None]


def test_it_is_read_by_index():
    packed = PackedList(range(2000))

    assert [packed[0], packed[1023], packed[-1]] == [0, 1023, 1999]
    with pytest.raises(IndexError):
        packed[2000]


def test_many_alike_take_a_tenth():
    rows = [("account", number, Decimal(number)) for number in range(5120)]
    packed = PackedList(rows)

    assert sum(map(len, packed._packs)) < 20 * len(rows)
