"""Whole bills of random organizations: the engine's are those of the billing oracle, line by line.

The oracle is a second calculation from the written rules (`tests/billing_oracle`). A difference
shows the feature set, the seed and both calculations; `compare_seed(seed, features)` makes it again.
What the rules leave open is decided in `tests/billing_oracle/choices.md`.
"""

import os
from dataclasses import replace
from datetime import date, timedelta
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_oracle.worlds import FEATURES, random_world
from tests.billing_world import bill_sources
from tests.compared_bills import compare, compare_seed
from tests.laws import examples

# What the engine and the oracle agree about. Not yet: what the engine does not calculate.
ENGINE_FEATURES = (
    "advance",
    "charges",
    "compounds",
    "consolidation",
    "contracts",
    "counters",
    "credits",
    "currencies",
    "defaults",
    "empty_bills",
    "epochs",
    "frequencies",
    "groups",
    "hierarchy",
    "minimums",
    "negatives",
    "nth_bills",
    "plan_changes",
    "pricing_changes",
    "roundings",
    "segments",
    "spans",
    "times",
    "zones",
)
# The commitments of these worlds pay for counters only.
FEE_FEATURES = tuple(name for name in ENGINE_FEATURES if name != "counters")
PAIRS = tuple(combinations(ENGINE_FEATURES, 2))
ALONE = tuple((feature,) for feature in ENGINE_FEATURES)

# Where the slow test begins, to resume it after a difference, and how many worlds it compares.
FIRST_SEED = int(os.environ.get("METERLAKE_FIRST_SEED", "0"))
WORLDS = 10_000
CHUNK = 1_000

seeds = st.integers(0, 2**32 - 1)


def check(seed, features):
    differences = compare_seed(seed, features).differences()
    assert not differences, f"compare_seed({seed}, {sorted(features)})\n{differences}"


def features_of(seed):
    """Each seed has a set of its own: all features, one, two, or about half of them."""
    sets = (ENGINE_FEATURES, ALONE[seed % len(ALONE)], PAIRS[seed % len(PAIRS)])
    half = tuple(name for number, name in enumerate(ENGINE_FEATURES) if seed >> number & 1)
    return (*sets, half)[seed // 7 % 4]


def test_features_are_those_of_the_oracle():
    assert set(ENGINE_FEATURES) <= FEATURES


@given(seeds)
@settings(max_examples=examples(60), deadline=None)
def test_bills_of_all_features_are_those_of_the_oracle(seed):
    check(seed, ENGINE_FEATURES)


@given(seeds, st.sampled_from(PAIRS))
@settings(max_examples=examples(40), deadline=None)
def test_bills_of_two_features_are_those_of_the_oracle(seed, features):
    check(seed, features)


@given(seeds, st.sets(st.sampled_from(FEE_FEATURES)))
@settings(max_examples=examples(60), deadline=None)
def test_fees_of_commitments_are_those_of_the_oracle(seed, features):
    """Nothing is charged that the commitments may pay for: only their fees are compared."""
    with pytest.MonkeyPatch.context() as patch:
        bill_sources(patch)
        world = random_world(seed, {*features, "commitments", "charges"}, rows=20)
        commitments = [
            each | {"lineItemTypes": ["COUNTER_ADJUSTMENT_DEBIT"]} for each in world.commitments
        ]
        cut = date(2022, 1, 1) + timedelta(days=seed % 121)
        world = replace(world, commitments=commitments)
        differences = compare(world, date(2021, 11, 1), date(2022, 5, 15), [cut]).differences()
    assert not differences, f"seed {seed}, {sorted(features)}\n{differences}"


def test_a_difference_is_found_and_shown():
    """A world that both see differently: the engine does not know the overage of commitments."""
    shown = compare_seed(2, ("commitments", "overage")).differences()
    assert any(row.startswith(("- ", "+ ")) for row in shown.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(WORLDS // CHUNK))
def test_bills_of_very_many_worlds_are_those_of_the_oracle(chunk):
    """METERLAKE_FIRST_SEED takes up after the seed of a difference."""
    begin = FIRST_SEED + chunk * CHUNK
    for seed in range(begin, begin + CHUNK):
        check(seed, features_of(seed))
