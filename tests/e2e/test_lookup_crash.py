"""kill -9 at every step of the jobs of a lookup table's files: they run again and end the same."""

import re
import shutil
from pathlib import Path

import pytest

import meterlake
from tests.e2e.crashing import zygote
from tests.e2e.uploading_items import prepared
from tests.homes import new_home, open_home

WORK = "tests.e2e.uploading_items:carry_on"


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    home = tmp_path_factory.mktemp("items") / "template"
    org_id = new_home(home)
    with open_home(home, org_id, upload_seconds=86_400) as opened:
        prepared(opened)
    return home, org_id


def copied(template, name: str) -> Path:
    copy = template[0].with_name(name)
    shutil.copytree(template[0], copy)
    return copy


@pytest.fixture(scope="module")
def undisturbed(processes, template):
    return processes.run([copied(template, "undisturbed")], template[1], work=WORK)


def test_without_a_crash_all_jobs_succeed(undisturbed):
    [state] = undisturbed["states"]
    draft, published = state["revisions"]

    assert (draft["items"], draft["version"], draft["jobs"]) == (2, 1, [["UPLOAD", "SUCCEEDED", 3]])
    assert [job[:2] for job in published["jobs"]] == [
        ["ARCHIVE", "SUCCEEDED"],
        ["DOWNLOAD", "SUCCEEDED"],
    ]
    assert (len(state["files"]), state["left"]) == (4, [])


def test_the_jobs_meet_every_step_that_the_source_marks(undisturbed):
    source = Path(meterlake.__file__).parent / "pipeline/lookup_files.py"
    marked = set(re.findall(r'reached\("([^"]+)"\)', source.read_text()))

    assert len(marked) >= 5
    assert marked <= set(undisturbed["reached"])


def check(processes, template, undisturbed, wanted):
    """Die at the wanted steps, recover, and look for what differs."""
    names, [expected] = undisturbed["reached"], undisturbed["states"]
    steps = [n for n, name in enumerate(names) if wanted(name)]
    assert steps
    lives = [copied(template, f"life-{step}") for step in steps]
    for step, home in zip(steps, lives, strict=True):
        assert processes.run([home], template[1], step, WORK)["died"]
    states = processes.run(lives, template[1], work=WORK)["states"]
    for home in lives:
        shutil.rmtree(home)

    for step, state in zip(steps, states, strict=True):
        assert state == expected, names[step]


def test_who_dies_around_the_commit_has_written_all_or_nothing(processes, template, undisturbed):
    around = {"lookups.ready", "lookups.written", "lookups.committed"}

    check(processes, template, undisturbed, around.__contains__)


@pytest.mark.slow
def test_whoever_dies_all_jobs_end_the_same(processes, template, undisturbed):
    check(processes, template, undisturbed, lambda name: name.startswith(("lookups.", "uploads.")))
