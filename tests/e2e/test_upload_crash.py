"""kill -9 at every step between the first byte of an upload and the end of its job."""

import re
import shutil
from pathlib import Path

import pytest

import meterlake
from tests.e2e.crashing import zygote
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
def template(tmp_path_factory):
    home = tmp_path_factory.mktemp("uploads") / "template"
    org_id = new_home(home)
    with open_home(home, org_id, upload_seconds=86_400) as opened:
        announced(opened)
    return home, org_id


def copied(template, name: str) -> Path:
    copy = template[0].with_name(name)
    shutil.copytree(template[0], copy)
    return copy


@pytest.fixture(scope="module")
def undisturbed(processes, template):
    return processes.run([copied(template, "undisturbed")], template[1], work=WORK)


def test_the_upload_meets_every_step_that_the_source_marks(undisturbed):
    package = Path(meterlake.__file__).parent
    marked = {
        name
        for source in SOURCES
        for name in re.findall(r'reached\("([^"]+)"\)', (package / source).read_text())
    }

    assert marked - ELSEWHERE <= set(undisturbed["reached"])
    assert len(marked) >= 7


def test_without_a_crash_the_job_succeeds(undisturbed):
    [state] = undisturbed["states"]

    assert state["job"]["status"] == "succeeded"
    assert (state["job"]["totalRows"], state["job"]["failedRows"]) == (8, 1)
    assert [name.endswith(".part") for name in state["files"]] == [False]
    assert state["left"] == []


def broken(processes, template, undisturbed, steps):
    """What differs after dying at some steps and recovering."""
    names, [expected] = undisturbed["reached"], undisturbed["states"]
    lives = [copied(template, f"life-{step}") for step in steps]
    for step, home in zip(steps, lives, strict=True):
        assert processes.run([home], template[1], step, WORK)["died"]
    states = processes.run(lives, template[1], work=WORK)["states"]
    for home in lives:
        shutil.rmtree(home)
    return [
        (names[step], {key: state[key] for key in expected if state[key] != expected[key]})
        for step, state in zip(steps, states, strict=True)
        if state != expected
    ]


def test_whoever_dies_the_file_is_ingested_once_and_its_job_ends(processes, template, undisturbed):
    # The steps of ingest itself are the business of the drop folder's tests.
    names = undisturbed["reached"]
    steps = {name: n for n, name in enumerate(names) if name.startswith(("uploads.", "objects."))}

    assert len(steps) >= 7
    assert broken(processes, template, undisturbed, list(steps.values())) == []


@pytest.mark.slow
def test_whoever_dies_at_any_step_at_all(processes, template, undisturbed):
    steps = range(len(undisturbed["reached"]))

    assert broken(processes, template, undisturbed, steps) == []
