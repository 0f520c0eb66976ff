"""Which uids came before: those that did are always recognized."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from meterlake.stages.ingest.dedup import SeenUids

HASHES = st.integers(0, 2**64 - 1)


@given(st.lists(st.lists(st.integers(0, 30) | HASHES, max_size=20), max_size=5))
def test_what_came_before_is_a_suspect(frames):
    seen, before = SeenUids(1 << 20), set()
    for values in frames:
        found = seen.suspects(np.array(values, np.uint64))
        suspects = [False] * len(values) if found is None else found.tolist()
        for value, suspect in zip(values, suspects, strict=True):
            assert suspect or value not in before
            before.add(value)


def test_of_several_equal_ones_all_but_the_first_are_suspects():
    seen = SeenUids(1 << 20)

    assert seen.suspects(np.array([7, 8, 7, 9, 7, 8], np.uint64)).tolist() == [
        False,
        False,
        True,
        False,
        True,
        True,
    ]


def test_new_ones_are_seldom_mistaken():
    numbers = np.random.default_rng(1)
    seen = SeenUids(100_000 * 120)
    mistaken = 0
    for _ in range(10):
        found = seen.suspects(numbers.integers(0, 2**64, 10_000, np.uint64, endpoint=False))
        mistaken += 0 if found is None else int(found.sum())

    assert mistaken < 200


def test_what_was_learned_is_a_suspect():
    seen = SeenUids(1 << 20)
    seen.learn(np.array([3, 4], np.uint64))

    assert seen.suspects(np.array([3, 5], np.uint64)).tolist() == [True, False]


def test_its_memory_is_bounded():
    assert SeenUids(0).capacity >= 1
    assert SeenUids(1 << 40).capacity == 1 << 21
