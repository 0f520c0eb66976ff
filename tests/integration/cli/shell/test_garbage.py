"""When commands look for garbage."""

import gc

import pytest

from meterlake.cli.shell.garbage import put_off_collection, resume_collection


@pytest.fixture
def unfrozen():
    usual = gc.get_threshold()
    yield usual
    gc.set_threshold(*usual)
    gc.unfreeze()


def test_work_has_the_usual_collector_again_without_what_was_imported(unfrozen):
    put_off_collection()
    assert gc.get_threshold()[0] > 100 * unfrozen[0]

    resume_collection()
    assert gc.get_threshold() == unfrozen
    assert gc.get_freeze_count() > 0


def test_a_collector_that_was_never_put_off_is_left_alone(unfrozen):
    before = gc.get_freeze_count()
    resume_collection()
    assert gc.get_threshold() == unfrozen
    assert gc.get_freeze_count() == before
