"""Random organizations with balances and commitments, billed in real stores: the ledger is right.

Beside our own check of it, `bean-check` adds it up, and the billing oracle has the same bills.
"""

import random

import pytest

from meterlake.model.calendar.recurrence import DayRange
from meterlake.pipeline.billing.verification.ledger_check import check_ledger, write_beancount
from tests.beancount import PROGRAM, bean_check, needs_bean_check
from tests.billing_oracle.worlds import random_world
from tests.stored_worlds import MONTHS, amounts_of_oracle, store_world

FEATURES = ("balances", "commitments", "currencies", "overage", "rollover")
ALWAYS = (DayRange(MONTHS[0].first, MONTHS[-1].after),)
WORLDS = 24
CHUNK = 6


def check_books(world, folder):
    """The ledger has no differences, and beancount finds none."""
    assert check_ledger(world.organization).differences == ()
    file = folder / "ledger.beancount"
    assert write_beancount(world.organization, file) == len(world.postings())
    assert PROGRAM is None or bean_check(file) == ""


def check_world(seed, folder, first, again, **changes):
    """A world is billed by some spans of days, then by others, which changes nothing."""
    described = random_world(seed, FEATURES)
    with store_world(described, folder, **changes) as world:
        world.bill_on_time(*first)
        postings = world.postings()
        assert world.amounts() == amounts_of_oracle(described)
        check_books(world, folder)

        assert {each.stored.value for each in world.bill_on_time(*again)} <= {"unchanged"}
        assert world.postings() == postings
    return len(postings)


@pytest.mark.long
@pytest.mark.usefixtures("home_database")
@pytest.mark.parametrize("seed", [1, 4])
def test_a_world_that_is_billed_again_has_the_same_ledger(tmp_path, seed):
    assert check_world(seed, tmp_path, ALWAYS, MONTHS[3:4]) > 0


@pytest.mark.slow
@needs_bean_check
@pytest.mark.parametrize("chunk", range(WORLDS // CHUNK))
def test_very_many_worlds_have_right_ledgers(tmp_path, chunk):
    """Months are billed in their order, in any order or all at once, and then again in any order."""
    total = 0
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        mixed = random.Random(seed).sample(MONTHS, len(MONTHS))
        first = (MONTHS, mixed, ALWAYS)[seed % 3]
        folder = tmp_path / str(seed)
        folder.mkdir()
        total += check_world(seed, folder, first, random.Random(-seed).sample(mixed, len(mixed)))
    assert total > CHUNK
