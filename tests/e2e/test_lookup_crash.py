"""kill -9 at every step of the jobs of a lookup table's files: they run again and end the same."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.e2e.uploading_items import prepared
from tests.homes import new_home, open_home

pytestmark = pytest.mark.slow

WORK = "tests.e2e.uploading_items:carry_on"


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    home = tmp_path_factory.mktemp("items") / "template"
    org_id = new_home(home)
    with open_home(home, org_id, upload_seconds=86_400) as opened:
        prepared(opened)
    return Lives(processes, home, org_id, WORK)


@pytest.mark.slow
def test_without_a_crash_all_jobs_succeed(lives):
    state = lives.undisturbed["state"]
    draft, published = state["revisions"]

    assert (draft["items"], draft["version"], draft["jobs"]) == (2, 1, [["UPLOAD", "SUCCEEDED", 3]])
    assert [job[:2] for job in published["jobs"]] == [
        ["ARCHIVE", "SUCCEEDED"],
        ["DOWNLOAD", "SUCCEEDED"],
    ]
    assert (len(state["files"]), state["left"]) == (4, [])


@pytest.mark.slow
def test_the_jobs_meet_every_step_that_the_source_marks(lives):
    steps = marked("pipeline/lookups/files.py")

    assert len(steps) >= 5
    assert steps <= set(lives.undisturbed["reached"])


@pytest.mark.slow
def test_who_dies_around_the_commit_has_written_all_or_nothing(lives):
    around = lives.every_step("lookups.ready", "lookups.written", "lookups.committed")

    assert lives.broken(around) == []


@pytest.mark.slow
def test_whoever_dies_all_jobs_end_the_same(lives):
    assert lives.broken(lives.outer_steps("lookups.", "uploads.")) == []
