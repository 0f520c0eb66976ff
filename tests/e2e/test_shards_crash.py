"""kill -9 at every step of a lake in shards: of its commits, and of a change of their number."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.homes import HEADER, csv_row, new_home

SOURCES = ("stores/lake/uid_shards.py",)
STEPS = ("shards.", "commit.", "lake.")
FIRST = HEADER + "".join(csv_row(f"u{n}") for n in range(6))
SECOND = HEADER + csv_row("u1") + csv_row("u2", 7) + csv_row("v1", account="newcomer")


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


def lives_of(processes, folder):
    """A home with two files in its inbox, of which the second one repeats and contradicts."""
    home = folder / "template"
    org_id = new_home(home)
    inbox = home / "drop" / "sample" / "inbox"
    (inbox / "1.csv").write_text(FIRST)
    (inbox / "2.csv").write_text(SECOND)
    return Lives(processes, home, org_id, "tests.e2e.sharding:sharded")


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    return lives_of(processes, tmp_path_factory.mktemp("crash"))


@pytest.mark.slow
def test_whoever_dies_over_the_shards_loses_nothing_and_doubles_nothing(lives):
    assert marked(*SOURCES) <= set(lives.undisturbed["reached"])
    state = lives.undisturbed["state"]
    assert state["ledger"] == [["1.csv", 1, "done", 6, 6, 0, 0], ["2.csv", 1, "done", 3, 1, 1, 1]]
    assert (state["shards"], state["known"]) == (3, 7)
    assert lives.broken(lives.last_steps("shards.")) == []


@pytest.mark.slow
def test_no_crash_at_any_step_of_the_shards_changes_anything(lives):
    assert lives.broken(lives.outer_steps(*STEPS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("lake_location", ["s3"], indirect=True)
def test_no_crash_over_the_shards_of_a_bucket_changes_anything(
    lake_location,  # noqa: ARG001
    tmp_path_factory,
):
    # The servers are there before the processes that use them.
    with zygote() as parent:
        lives = lives_of(parent, tmp_path_factory.mktemp("bucket"))
        assert lives.broken(lives.last_steps(*STEPS)) == []
