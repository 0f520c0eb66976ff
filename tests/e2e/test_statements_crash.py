"""kill -9 at every step of a statement: a bill has the one of before, or the whole new one."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.e2e.statements import prepared
from tests.homes import new_home, open_home

ALIKE = ("files", "failed", "objects", "jobs", "events")


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("statements")
    org_id = new_home(folder / "template")
    with open_home(folder / "template", org_id) as opened:
        prepared(opened)
    return Lives(processes, folder / "template", org_id, "tests.e2e.statements:made")


@pytest.mark.slow
def test_whoever_dies_the_bill_has_the_statement_of_before_or_the_whole_new_one(lives):
    state = lives.undisturbed["state"]
    assert marked("pipeline/statements/jobs.py") == set(lives.undisturbed["reached"])
    assert state["jobs"] == ["COMPLETE", "COMPLETE"]
    assert (state["objects"], state["failed"], set(state["files"])) == (2, 0, {"json", "csv"})
    assert state["seen"].keys() == {"json"}
    assert state["seen"]["json"] != state["files"]["json"]

    assert lives.broken(lives.outer_steps("statement."), [*ALIKE]) == []
    for end in lives.ends(lives.outer_steps("statement.")):
        assert end["seen"] in (state["seen"], state["files"])
