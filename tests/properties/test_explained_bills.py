"""Bills of random worlds explained: every number follows from those below it, and the total is the bill's."""

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.calendar.recurrence import DayRange
from meterlake.stages.bill import BillSelection, billing_terms
from tests.billing_oracle.worlds import random_world
from tests.billing_world import note_draws
from tests.compared_bills import Engine
from tests.explained_trees import check_bill, explained
from tests.laws import examples
from tests.properties.test_billing_oracle import features_of

FIRST, AFTER = date(2021, 11, 1), date(2022, 5, 15)


def check_world(seed):
    """Explain all bills of a world, and answer how many numbers they have."""
    engine = Engine(random_world(seed, features_of(seed), days=120, rows=40))
    cut, count = date(2022, 1, 1) + timedelta(days=seed % 121), 0
    for days in (DayRange(FIRST, cut), DayRange(cut, AFTER)):
        terms = billing_terms(engine.configuration, BillSelection(days))
        found = list(explained(terms, engine.usage(terms), engine.movements))
        count += sum(check_bill(*each) for each in found)
        note_draws(engine.movements, engine.configuration, [bill for bill, _ in found])
    return count


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(4), deadline=None)
def test_every_number_of_a_bill_follows_from_those_below_it(seed):
    check_world(seed)


def test_a_world_has_very_many_numbers():
    assert check_world(3) > 1000


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(4))
def test_every_number_of_very_many_bills_follows_from_those_below_it(chunk):
    numbers = sum(check_world(seed) for seed in range(chunk * 25, chunk * 25 + 25))
    assert numbers > 2_500
