"""kill -9 at every step of exports: whoever continues them leaves the same objects, byte for byte."""

import hashlib
import os
import shutil
import subprocess
import sys
from typing import Any

import boto3
import pytest

from tests.e2e.crashing import zygote
from tests.e2e.exporting import LOCAL, S3, contents, prepared
from tests.e2e.lives import Lives, marked
from tests.homes import new_home, open_home

pytest_plugins = ["tests.doubles.fixtures"]

WORK = "tests.e2e.exporting:carry_on"
ELSEWHERE = "tests.e2e.exporting:elsewhere"
OURS = ["exports"]
SOURCES = ("pipeline/export.py", "pipeline/export_delivery.py", "pipeline/export_staging.py")


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    home = tmp_path_factory.mktemp("exports") / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        prepared(opened, **LOCAL)
    return home, org_id


@pytest.fixture(scope="module")
def lives(processes, template):
    return Lives(processes, *template, WORK)


def test_without_a_crash_everything_is_there(lives):
    state = lives.undisturbed["state"]["exports"]
    objects = state["objects"]

    # 3 files of measurements each, where text is cut; 1 of Parquet; the other meter; quantities.
    assert len([key for key in objects if "-0003." in key]) == 3
    assert len([key for key in objects if key.endswith("_manifest.json")]) == 5
    assert len([key for key in objects if "type=manifest/" in key]) == 2
    assert sorted(name.rpartition(".")[2] for name in state["kept"]) == [
        "gz",
        "json",
        "json",
        "zip",
    ]
    assert (state["staged"], state["problems"]) == ([], [])
    assert set(state["as read again"]) == {True}


def test_the_jobs_meet_every_step_that_the_source_marks(lives):
    steps = marked(*SOURCES) - {"export.submitted"}

    assert len(steps) >= 7
    assert steps <= set(lives.undisturbed["reached"])


def test_who_dies_between_two_files_leaves_no_half_and_no_doubled_one(lives):
    puts = lives.every_step("export.file_put")

    assert lives.broken([puts[1]], OURS) == []


@pytest.mark.slow
def test_whoever_dies_the_objects_are_the_same(lives):
    steps = [*lives.every_step("export."), *lives.last_steps("objects.")]

    assert lives.broken(steps, OURS) == []


@pytest.mark.slow
def test_whoever_dies_twice_the_objects_are_the_same(lives):
    last = [step for [step] in lives.last_steps("export.")]
    pairs = [(first, second) for first in last for second in (0, first // 2)]

    assert lives.broken(pairs, OURS) == []


@pytest.mark.slow
def test_another_machine_makes_the_same_bytes_from_the_start(processes, template):
    home, org_id = template
    elsewhere = home.with_name("elsewhere") / "template"
    shutil.copytree(home, elsewhere)
    lives = Lives(processes, elsewhere, org_id, ELSEWHERE)

    assert lives.broken(lives.last_steps("export."), OURS) == []


@pytest.mark.slow
def test_what_is_seen_of_a_broken_off_export_is_whole(processes, lives, template, tmp_path):
    home, org_id = template
    expected = lives.undisturbed["state"]["exports"]["objects"]
    for [step] in lives.every_step("export.file_put", "objects.")[::2]:
        copy = tmp_path / str(step)
        shutil.copytree(home, copy)
        assert processes.run([copy], org_id, step, WORK)["died"]
        seen = {
            key: digest
            for key, digest in contents(copy / "out").items()
            if not key.endswith(".part")
        }
        shutil.rmtree(copy)

        assert seen.items() <= expected.items()
        for manifest in (key for key in seen if key.endswith("_manifest.json")):
            job = manifest.rpartition("/")[2].partition("_")[0]
            assert job in manifest


@pytest.mark.slow
def test_whoever_dies_a_bucket_has_the_same_objects_and_no_parts(
    moto, s3_credentials, monkeypatch, tmp_path
):
    assert s3_credentials
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    client: Any = boto3.client("s3", endpoint_url=moto, region_name="us-east-1")
    client.create_bucket(Bucket="theirs")
    home = tmp_path / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        prepared(opened, **S3)
    (home / "endpoint").write_text(moto)

    with zygote() as processes:
        answer = processes.run([_copy(home, "undisturbed")], org_id, None, WORK)
        [expected], steps = answer["states"], answer["reached"]
        objects = _emptied(client)
        assert "objects.part_put" in steps
        assert expected["exports"]["problems"] == []
        # The last time that each step is met, and a few parts.
        last = {name: step for step, name in enumerate(steps)}
        parts = [step for step, name in enumerate(steps) if name == "objects.part_put"]
        chosen = {*last.values(), *parts[:: len(parts) // 4]}
        for step in sorted(chosen):
            name = steps[step]
            copy = _copy(home, str(step))
            assert processes.run([copy], org_id, step, WORK)["died"]
            [state] = processes.run([copy], org_id, None, WORK)["states"]
            assert state["exports"] == expected["exports"], name
            assert _emptied(client) == objects, name
            shutil.rmtree(copy)
    client.close()


def _copy(home, name):
    return shutil.copytree(home, home.with_name(name))


def _emptied(client: Any) -> dict[str, str]:
    """What a bucket held, which holds nothing now; there are no parts of half-put objects."""
    found = {}
    for each in client.list_objects_v2(Bucket="theirs").get("Contents", ()):
        body = client.get_object(Bucket="theirs", Key=each["Key"])["Body"].read()
        found[each["Key"]] = hashlib.sha256(body).hexdigest()
        client.delete_object(Bucket="theirs", Key=each["Key"])
    assert client.list_multipart_uploads(Bucket="theirs").get("Uploads", []) == []
    return found


BOTH = """
import sys
from meterlake.model import failpoint
from meterlake.pipeline.export import finished
from pathlib import Path
from tests.e2e.exporting import configured, jobs_of
from tests.homes import open_home

home, org_id, name = sys.argv[1:]
ran = set()
failpoint.hook = lambda step: ran.add(step)
with open_home(Path(home), org_id) as opened:
    configured(opened)
    jobs = jobs_of(opened)
    print("ready", flush=True)
    sys.stdin.readline()
    for job in jobs:
        ran.clear()
        exported = finished(opened.stores, job.id)
        print(job.id, "export.finished" in ran, exported.manifest_url, flush=True)
"""


@pytest.mark.slow
def test_of_two_processes_at_the_same_jobs_each_job_is_run_by_one(lives, template):
    home, org_id = template
    copy = _copy(home, "both")
    command = [sys.executable, "-c", BOTH, str(copy), org_id]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    env = os.environ | {"PYTHONPATH": "src:."}
    started = [subprocess.Popen([*command, name], env=env, **pipes) for name in ("a", "b")]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    told = [process.communicate("go\n", timeout=300)[0] for process in started]
    one, other = ([line.split(" ") for line in text.splitlines()] for text in told)

    assert [process.returncode for process in started] == [0, 0]
    assert len(one) == len(other) == 5
    for (job, ran, manifest), (_, ran_too, same) in zip(one, other, strict=True):
        assert {ran, ran_too} == {"True", "False"}, job
        assert manifest == same
    expected = lives.undisturbed["state"]["exports"]
    assert contents(copy / "out") == expected["objects"]
    assert contents(copy / "objects" / "exports") == expected["kept"]
    assert not [*copy.glob("staging/exports/*")]
