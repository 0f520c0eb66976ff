"""kill -9 while what follows from events is written: whoever goes on writes it once."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.events import CREATED, fill_events
from tests.e2e.lives import Lives, marked
from tests.homes import new_home, open_home


@pytest.fixture(scope="module")
def lives(home_database, tmp_path_factory):
    folder = tmp_path_factory.mktemp(home_database)
    org_id = new_home(folder / "template")
    with open_home(folder / "template", org_id) as opened:
        fill_events(opened)
    with zygote() as processes:
        yield Lives(processes, folder / "template", org_id, "tests.e2e.events:notified")


@pytest.mark.slow
def test_what_follows_from_events_does_so_once_whoever_dies(lives):
    state, reached = lives.undisturbed["state"], lives.undisturbed["reached"]
    assert set(reached) == marked("pipeline/events/reader.py", "pipeline/events/scheduled.py")
    codes = [code for _, code, _ in state["fired"]]
    # The home was made after the time of its clock, with two accounts.
    assert codes == ["acme", *["every"] * 4]
    assert {name for name, *_ in state["fired"]} == {CREATED}
    assert len(state["runs"]) == len({key for key, _ in state["runs"]}) == len(codes)
    assert len(state["errors"]) == 1
    assert state["ended"] == ["2026-10-01", "2026-10-02"]

    alike = ("fired", "errors", "runs", "ended")
    assert lives.broken(lives.outer_steps("events.", "scheduled."), alike) == []
