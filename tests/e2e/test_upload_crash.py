"""kill -9 at every step between the first byte of an upload and the end of its job."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.e2e.uploading import announced
from tests.homes import new_home, open_home

SOURCES = (
    "pipeline/file_jobs.py",
    "pipeline/receiving.py",
    "pipeline/uploads.py",
    "stores/objects/local.py",
)
# Only where files come from another store, or do not come at all.
ELSEWHERE = {"uploads.fetched", "uploads.given_up"}
WORK = "tests.e2e.uploading:carry_on"


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    home = tmp_path_factory.mktemp("uploads") / "template"
    org_id = new_home(home)
    with open_home(home, org_id, upload_seconds=86_400) as opened:
        announced(opened)
    return Lives(processes, home, org_id, WORK)


def test_the_upload_meets_every_step_that_the_source_marks(lives):
    steps = marked(*SOURCES)

    assert steps - ELSEWHERE <= set(lives.undisturbed["reached"])
    assert len(steps) >= 7


def test_without_a_crash_the_job_succeeds(lives):
    state = lives.undisturbed["state"]

    assert state["job"]["status"] == "succeeded"
    assert (state["job"]["totalRows"], state["job"]["failedRows"]) == (8, 1)
    assert [name.endswith(".part") for name in state["files"]] == [False]
    assert state["left"] == []


def test_whoever_dies_the_file_is_ingested_once_and_its_job_ends(lives):
    # The steps of ingest itself are the business of the drop folder's tests.
    own = lives.last_steps("uploads.", "objects.")

    assert len(own) >= 7
    assert lives.broken(own) == []


@pytest.mark.slow
def test_whoever_dies_at_any_step_at_all(lives):
    assert lives.broken(lives.every_step("")) == []
