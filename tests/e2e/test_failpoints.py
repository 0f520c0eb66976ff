"""Every step that the code declares belongs to a test that really kills a process there.

Which test that is, `tests/killed_steps.txt` says, and a run of tests fails if the test did not do
it: see `tests/killed_steps.py`. Here are the tests of the steps that no other file is about.
"""

import re
import shutil

import pytest

from tests.e2e.chores import prepared
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives
from tests.homes import new_home, open_home
from tests.killed_steps import LIST, declared_steps, read_list, recorded, unkept


def test_every_declared_step_has_a_test_that_kills_there():
    killed = read_list()

    assert killed.keys() == declared_steps()
    assert list(killed) == sorted(killed)
    for test in set(killed.values()):
        path, _, name = test.partition("::")
        text = (LIST.parents[1] / path).read_text()
        assert re.search(rf"^ *def {name.partition('[')[0]}\(", text, re.MULTILINE), test


@pytest.mark.long
def test_a_test_that_killed_nothing_at_its_step_is_told():
    promised = {"a": "t1", "b": "t1", "c": "t2", "d": "t3"}

    assert unkept(promised, {"t1": {"a", "x"}, "t2": {"c"}}) == ["t1 killed no process at b"]
    assert unkept(promised, {}) == []


def test_the_list_names_a_quick_test_before_a_slow_one_and_forgets_what_no_test_did():
    before = {"a": "slow", "b": "quick", "c": "slow", "d": "elsewhere"}
    seen = {"slow": {"a", "b", "e"}, "quick": {"a", "b"}}

    assert recorded(before, seen, {"slow"}) == {
        "a": "quick",
        "b": "quick",
        "d": "elsewhere",
        "e": "slow",
    }


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    """The lives of one home, by what is done in them."""
    folder = tmp_path_factory.mktemp("chores")
    org_id = new_home(folder / "done" / "template")
    with open_home(folder / "done" / "template", org_id, upload_seconds=60) as opened:
        prepared(opened)
    for work in ("asked", "upkept"):
        shutil.copytree(folder / "done", folder / work)
    return {
        work: Lives(processes, folder / work / "template", org_id, f"tests.e2e.chores:{work}")
        for work in ("done", "asked", "upkept")
    }


@pytest.mark.long
def test_who_dies_at_a_chore_has_it_done_once_by_the_next_one(lives):
    state = lives["done"].undisturbed["state"]

    assert (state["backfill"], state["folder"], state["exports"]) == (
        "DROPPED",
        False,
        ["COMPLETE"],
    )
    assert state["upload"].startswith("NotUploaded")
    assert len(state["incidents"]) == len(set(map(tuple, state["incidents"]))) == 2
    told = lives["done"].last_steps("backfill.dropped", "uploads.given_up")
    assert lives["done"].broken(told) == []


@pytest.mark.slow
def test_whoever_dies_at_any_step_of_a_chore_it_is_done_once(lives):
    assert lives["done"].broken(lives["done"].outer_steps("")) == []


@pytest.mark.slow
def test_whoever_dies_over_the_jobs_of_a_backfill_it_is_applied_once(lives):
    assert lives["asked"].undisturbed["state"]["status"] == "APPLIED"
    assert lives["asked"].undisturbed["state"]["pending"] == 0
    assert len(lives["asked"].undisturbed["state"]["retracted"]) == 1
    own = lives["asked"].outer_steps("backfill.", "lake.")
    assert lives["asked"].broken(own) == []


@pytest.mark.slow
def test_upkeep_that_dies_loses_nothing_and_the_next_one_ends_it(lives):
    steps = lives["upkept"].outer_steps("")

    assert len(steps) > 5
    assert lives["upkept"].broken(steps) == []
