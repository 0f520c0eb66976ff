"""kill -9 at every step between the first byte of an upload and the end of its job."""

import httpx
import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.e2e.uploading import DATA, TYPE, announced
from tests.homes import new_home, open_home

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.doubles.fixtures"]

SOURCES = (
    "pipeline/jobs/file_jobs.py",
    "pipeline/ingest/receiving.py",
    "pipeline/ingest/uploads.py",
    "stores/objects/local.py",
)
# Only where files come from another store, as below, or do not come at all: see `chores`.
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


@pytest.mark.slow
def test_the_upload_meets_every_step_that_the_source_marks(lives):
    steps = marked(*SOURCES)

    assert steps - ELSEWHERE <= set(lives.undisturbed["reached"])
    assert len(steps) >= 7


@pytest.mark.slow
def test_without_a_crash_the_job_succeeds(lives):
    state = lives.undisturbed["state"]

    assert state["job"]["status"] == "succeeded"
    assert (state["job"]["totalRows"], state["job"]["failedRows"]) == (8, 1)
    assert [name.endswith(".part") for name in state["files"]] == [False]
    assert state["left"] == []


@pytest.mark.slow
def test_whoever_dies_the_file_is_ingested_once_and_its_job_ends(lives):
    # The steps of ingest itself are the business of the drop folder's tests.
    own = lives.last_steps("uploads.", "objects.")

    assert len(own) >= 7
    assert lives.broken(own) == []


@pytest.mark.slow
def test_whoever_dies_at_any_step_at_all(lives):
    assert lives.broken(lives.outer_steps("")) == []


@pytest.mark.slow
def test_whoever_dies_a_file_of_a_bucket_is_ingested_once(new_place, tmp_path):
    place = new_place("moto")
    where = {"objects": place.url, "s3_endpoint": place.server}
    org_id = new_home(tmp_path / "template")
    with open_home(tmp_path / "template", org_id, upload_seconds=86_400, **where) as opened:
        announced(opened)
        url = (tmp_path / "template" / "url").read_text().split()[1]
    sent = httpx.put(url, content=DATA, headers={"content-type": TYPE, "if-none-match": "*"})
    assert sent.status_code == 200
    work = "tests.e2e.uploading:carry_on_elsewhere"
    with zygote() as parent:  # with the credentials of this test
        lives = Lives(parent, tmp_path / "template", org_id, work, **where)

        assert "uploads.fetched" in lives.undisturbed["reached"]
        assert lives.undisturbed["state"]["job"]["status"] == "succeeded"
        assert lives.broken(lives.last_steps("uploads.", "commit.")) == []
