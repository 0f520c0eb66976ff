"""Long runs put off the search for garbage, and only as long as they last."""

import gc
from contextlib import suppress

from meterlake.pipeline.usage.garbage import rare_garbage_searches, spare_what_is_there


def test_searches_are_rare_until_the_last_of_overlapping_runs_ends():
    """The first run that ends does not take it from the other."""
    usual = gc.get_threshold()
    first, second = rare_garbage_searches(), rare_garbage_searches()

    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)

    assert gc.get_threshold()[0] > 100 * usual[0]
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual


def test_a_run_that_fails_leaves_everything_as_it_was():
    """What was spared is searched again, too."""
    usual = gc.get_threshold()

    with suppress(ZeroDivisionError), rare_garbage_searches():
        spare_what_is_there()
        assert gc.get_freeze_count() > 0
        raise ZeroDivisionError

    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
