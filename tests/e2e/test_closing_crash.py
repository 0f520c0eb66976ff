"""kill -9 at every step of what is decided about a month: whoever looks again goes on."""

import pytest

from tests.e2e.closing import decided, prepared
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.every_lake import IN_S3_TOO
from tests.homes import new_home, open_home

pytestmark = IN_S3_TOO

SOURCES = ("closing.py", "reopening.py")


@pytest.fixture(scope="module")
def lives(lake_location, tmp_path_factory):  # noqa: ARG001
    home = tmp_path_factory.mktemp("closings") / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        prepared(opened)
    with zygote() as processes:
        yield Lives(processes, home, org_id, f"{decided.__module__}:{decided.__name__}")


@pytest.mark.slow
def test_without_a_crash_the_month_is_closed_twice(lives):
    state = lives.undisturbed["state"]

    assert (state["status"], len(state["reopenings"]), state["failed"]) == ("CLOSED", 1, None)
    assert state["bills"] == [["acme", "71", "APPROVED"], ["bolt", "31", "APPROVED"]]
    assert state["exports"] == ["COMPLETE"] * 4
    assert state["asked"] == ["approve COMPLETE"] * 2 + ["review COMPLETE"] * 3
    steps = marked(*(f"pipeline/home/{name}" for name in SOURCES))
    assert len(steps) == 5
    assert steps <= set(lives.undisturbed["reached"])


@pytest.mark.slow
def test_whoever_dies_on_the_way_the_month_ends_as_it_would_have(lives):
    # Each step of a closing by itself is the business of the command's tests.
    assert lives.broken(lives.last_steps("closing.", "billing.")) == []
