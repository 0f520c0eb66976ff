"""A process that requeues dies at every step in turn; the next one ends where it would have."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.every_lake import IN_S3_TOO
from tests.homes import HEADER, csv_row, new_home, open_home
from tests.integration.pipeline.rejected.test_rejected import correct

pytestmark = [IN_S3_TOO, pytest.mark.slow]
WORK = "tests.e2e.requeueing:requeued"
DATA = HEADER + "".join(
    [
        csv_row("", meter="later", account="newcomer"),
        csv_row("u2", "x", meter="later"),
        csv_row("u3"),
        csv_row("u3", 7),
        csv_row("u5", meter="later"),
    ]
)
# A row that is rejected again is tried once more by whoever comes next: its tries may differ.
ALIKE = ("measurements", "uids", "accounts", "mended")


@pytest.fixture(scope="module")
def processes(lake_location):  # noqa: ARG001
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    """A home with four rejected rows, two of which come in now."""
    home = tmp_path_factory.mktemp("crash") / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        assert opened.ingest("a.csv", DATA).rejected == 4
        correct(opened)
    return Lives(processes, home, org_id, WORK)


@pytest.mark.slow
def test_every_step_that_the_source_marks_is_met(lives):
    steps = marked("pipeline/rejected/requeue.py")

    assert len(steps) == 3
    assert steps <= set(lives.undisturbed["reached"])
    assert len(lives.undisturbed["state"]["measurements"]) == 3
    assert lives.undisturbed["state"]["mended"] == [[2], [6]]


@pytest.mark.slow
def test_after_a_crash_requeueing_again_ends_where_it_would_have(lives):
    """At the steps of requeueing itself, and after the commit; all others are slower."""
    own = lives.last_steps("requeue.", "commit.done")

    assert lives.broken(own, ALIKE) == []


@pytest.mark.slow
def test_no_crash_at_any_step_changes_anything(lives, lake_location):
    assert lives.broken(lives.chosen_steps(lake_location, ""), ALIKE) == []


@pytest.mark.slow
def test_two_crashes_change_nothing_either(lives, lake_location):
    pairs = lives.some_pairs(10 if lake_location == "folder" else 3)

    assert lives.broken(pairs, ALIKE) == []
