"""Whole bills of random organizations: the engine's are those of the billing oracle, line by line.

The oracle is a second calculation from the written rules (`tests/billing_oracle`). A difference
shows the feature set, the seed and both calculations; `compare_seed(seed, features)` makes it again.
What the rules leave open is decided in `tests/billing_oracle/choices.md`.
"""

import os
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_oracle.worlds import FEATURES
from tests.compared_bills import KINDS, compare_seed
from tests.laws import examples

ALL = tuple(sorted(FEATURES))
PAIRS = tuple(combinations(ALL, 2))
ALONE = tuple((feature,) for feature in ALL)

# Where the slow test begins, to resume it after a difference, and how many worlds it compares.
FIRST_SEED = int(os.environ.get("METERLAKE_FIRST_SEED", "0"))
WORLDS = 2_000
CHUNK = 500

seeds = st.integers(0, 2**32 - 1)


def check(seed, features):
    differences = compare_seed(seed, features).differences()
    assert not differences, f"compare_seed({seed}, {sorted(features)})\n{differences}"


def features_of(seed):
    """Each seed has a set of its own: all features, one, two, or about half of them."""
    sets = (ALL, ALONE[seed % len(ALONE)], PAIRS[seed % len(PAIRS)])
    half = tuple(name for number, name in enumerate(ALL) if seed >> number & 1)
    return (*sets, half)[seed // 7 % 4]


@given(seeds)
@settings(max_examples=examples(24), deadline=None)
def test_bills_of_all_features_are_those_of_the_oracle(seed):
    check(seed, ALL)


@given(seeds, st.sampled_from(PAIRS))
@settings(max_examples=examples(30), deadline=None)
def test_bills_of_two_features_are_those_of_the_oracle(seed, features):
    check(seed, features)


def test_a_difference_is_found_and_shown(monkeypatch):
    """A world that both see differently: the engine does not know balances here."""
    monkeypatch.delitem(KINDS, "balances")
    shown = compare_seed(5, ("balances",)).differences()
    assert any(row.startswith("+   BALANCE_CONSUMED") for row in shown.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(WORLDS // CHUNK))
def test_bills_of_very_many_worlds_are_those_of_the_oracle(chunk):
    """METERLAKE_FIRST_SEED takes up after the seed of a difference."""
    begin = FIRST_SEED + chunk * CHUNK
    for seed in range(begin, begin + CHUNK):
        check(seed, features_of(seed))
