"""kill -9 at every step of exports: whoever continues them leaves the same objects, byte for byte."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from tests.databases import copy_home
from tests.doubles.gcs import gcs_server
from tests.e2e.crashing import Zygote, zygote
from tests.e2e.exporting import GCS, LOCAL, S3, contents, prepared
from tests.e2e.lives import Lives, marked
from tests.every_lake import IN_S3_TOO
from tests.homes import new_home, open_home

pytest_plugins = ["tests.doubles.fixtures"]

WORK = "tests.e2e.exporting:carry_on"
ELSEWHERE = "tests.e2e.exporting:elsewhere"
OURS = ["exports"]
# At which of the steps between two files somebody dies.
EACH = {"folder": 3, "s3": 15}
SOURCES = ("pipeline/export/run.py", "pipeline/export/delivery.py", "pipeline/export/staging.py")


@pytest.fixture(scope="module")
def processes(lake_location):  # noqa: ARG001
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def template(lake_location, tmp_path_factory):  # noqa: ARG001
    home = tmp_path_factory.mktemp("exports") / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        prepared(opened, **LOCAL)
    return home, org_id


@pytest.fixture(scope="module")
def lives(processes, template):
    return Lives(processes, *template, WORK)


@pytest.mark.slow
@IN_S3_TOO
def test_without_a_crash_everything_is_there(lives):
    state = lives.undisturbed["state"]["exports"]
    objects = state["objects"]

    # 3 files of measurements each, where text is cut; 1 of Parquet.
    assert len([key for key in objects if "_measurements-0003." in key]) == 3
    assert len([key for key in objects if "_egress_measurements.parquet" in key]) == 1
    # Documents are cut, too.
    assert [key for key in objects if "_quantities-0002.parquet" in key]
    assert len([key for key in objects if key.endswith("_manifest.json")]) == 5
    assert len([key for key in objects if "type=manifest/" in key]) == 2
    assert sorted(name.rpartition(".")[2] for name in state["kept"]) == [
        "json",
        "json",
        "parquet",
        "zip",
    ]
    assert (state["staged"], state["problems"]) == ([], [])
    assert set(state["as read again"]) == {True}


@pytest.mark.slow
@IN_S3_TOO
def test_bills_lines_and_focus_come_to_the_same(lives):
    billed = lives.undisturbed["state"]["exports"]["billed"]

    # acme and bolt pay 31 USD a month, and acme for 0 + 1 + … + 11 gigabytes.
    assert {rows for name, (rows, _) in billed.items() if name != "bill"} == {3}
    assert billed["bill"][0] == 2
    for _, totals in billed.values():
        assert {currency: Decimal(total) for currency, total in totals.items()} == {"USD": 128}


@pytest.mark.slow
@IN_S3_TOO
def test_the_jobs_meet_every_step_that_the_source_marks(lives):
    steps = marked(*SOURCES) - {"export.submitted"} | {"objects.put_linked"}

    assert len(steps) >= 7
    assert steps <= set(lives.undisturbed["reached"])


@pytest.mark.slow
@IN_S3_TOO
def test_who_dies_between_two_files_or_inside_of_one_leaves_no_half_and_no_doubled_one(lives):
    puts, linked = (lives.every_step(name) for name in ("export.file_put", "objects.put_linked"))

    assert lives.broken([puts[1], linked[2]], OURS) == []


@IN_S3_TOO
@pytest.mark.slow
def test_whoever_dies_the_objects_are_the_same(lives, lake_location):
    steps = lives.chosen_steps(lake_location, "export.", "objects.")

    assert lives.broken(steps, OURS) == []


@IN_S3_TOO
@pytest.mark.slow
def test_whoever_dies_twice_the_objects_are_the_same(lives, lake_location):
    last = [step for [step] in lives.last_steps("export.")]
    pairs = [(first, second) for first in last for second in (0, first // 2)]
    pairs = pairs if lake_location == "folder" else pairs[::5]

    assert lives.broken(pairs, OURS) == []


@IN_S3_TOO
@pytest.mark.slow
def test_another_machine_makes_the_same_bytes_from_the_start(processes, template):
    home, org_id = template
    elsewhere = home.with_name("elsewhere") / "template"
    copy_home(home, elsewhere)
    lives = Lives(processes, elsewhere, org_id, ELSEWHERE)

    assert lives.broken(lives.last_steps("export."), OURS) == []


@pytest.mark.slow
def test_whoever_dies_between_two_tasks_the_objects_are_the_same(processes, lives, template):
    home, org_id = template
    copy = copy_home(home, home.with_name("tasks") / "template")
    tasks = Lives(processes, copy, org_id, WORK, runner="threads", runner_workers="1")
    assert tasks.undisturbed["state"]["exports"] == lives.undisturbed["state"]["exports"]

    assert tasks.broken(tasks.every_step("export.partition_staged")[::4], OURS) == []


@IN_S3_TOO
@pytest.mark.slow
def test_what_is_seen_of_a_broken_off_export_is_whole(
    processes, lives, template, tmp_path, lake_location
):
    home, org_id = template
    expected = lives.undisturbed["state"]["exports"]["objects"]
    told = 0
    for [step] in lives.every_step("export.file_put", "objects.")[:: EACH[lake_location]]:
        copy = tmp_path / str(step)
        copy_home(home, copy)
        assert processes.run([copy], org_id, step, WORK)["died"]
        seen = {
            key: digest
            for key, digest in contents(copy / "out").items()
            if not key.endswith(".part")
        }
        assert seen.items() <= expected.items()
        for key in seen:
            if key.endswith("_manifest.json"):
                told += 1
                top = key.partition("orgId=")[0]
                manifest = json.loads((copy / "out" / key).read_bytes())
                assert {top + file["key"] for file in manifest["files"]} <= set(seen)
        shutil.rmtree(copy)
    assert told


@pytest.mark.slow
def test_whoever_dies_a_bucket_has_the_same_objects_and_no_parts(
    moto, s3_credentials, monkeypatch, tmp_path
):
    assert s3_credentials
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    client: Any = boto3.client("s3", endpoint_url=moto, region_name="us-east-1")
    client.create_bucket(Bucket="theirs")

    def found() -> dict[str, bytes]:
        listed = client.list_objects_v2(Bucket="theirs").get("Contents", ())
        got = {each["Key"]: client.get_object(Bucket="theirs", Key=each["Key"]) for each in listed}
        return {key: each["Body"].read() for key, each in got.items()}

    def emptied() -> None:
        assert client.list_multipart_uploads(Bucket="theirs").get("Uploads", []) == []
        for key in found():
            client.delete_object(Bucket="theirs", Key=key)

    def chosen(steps: list[str]) -> Iterable[int]:
        assert "objects.part_put" in steps
        # The last time that each step is met, and a few parts.
        parts = [step for step, name in enumerate(steps) if name == "objects.part_put"]
        return {*_last(steps), *parts[:: len(parts) // 2]}

    home = tmp_path / "template"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        prepared(opened, **S3)
    (home / "endpoint").write_text(moto)
    with zygote() as processes:
        _survives(processes, home, org_id, Bucket(found, emptied), chosen)
    client.close()


@pytest.mark.slow
def test_whoever_dies_a_google_bucket_has_the_same_objects(s3_credentials, tmp_path):
    assert s3_credentials  # of no cloud at all
    with gcs_server("theirs") as url:
        client = storage.Client(
            project="none",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": url},
        )
        bucket = client.bucket("theirs")

        def found() -> dict[str, bytes]:
            return {each.name: each.download_as_bytes() for each in bucket.list_blobs()}

        def emptied() -> None:
            for each in bucket.list_blobs():
                each.delete()

        def chosen(steps: list[str]) -> Iterable[int]:
            uploads = [step for step, name in enumerate(steps) if name.startswith("google.chunk")]
            sessions = [step for step, name in enumerate(steps) if "google.session" in name]
            # Manifests take several chunks, so that some deaths leave a session with a part.
            assert len(uploads) > 1.2 * len(sessions)
            some = (each[:: len(each) // 2] for each in (uploads, sessions))
            return {*_last(steps), *(step for each in some for step in each)}

        home = tmp_path / "template"
        org_id = new_home(home)
        with open_home(home, org_id) as opened:
            prepared(opened, **GCS)
        (home / "google").write_text(url)
        with zygote() as processes:
            _survives(processes, home, org_id, Bucket(found, emptied), chosen)


class Bucket(NamedTuple):
    """What one holds, and how it is emptied; that refuses what nobody should have left."""

    found: Callable[[], dict[str, bytes]]
    emptied: Callable[[], None]

    def hashes(self) -> dict[str, str]:
        """Of every object the checksum of its content."""
        return {key: hashlib.sha256(data).hexdigest() for key, data in self.found().items()}


def _survives(
    processes: Zygote,
    home: Path,
    org_id: str,
    bucket: Bucket,
    chosen: Callable[[list[str]], Iterable[int]],
) -> None:
    """Die at some steps; what is there is whole, and the next one leaves what nobody disturbed would."""
    answer = processes.run([_copy(home, "undisturbed")], org_id, None, WORK)
    [expected], steps = answer["states"], answer["reached"]
    assert expected["exports"]["problems"] == []
    objects = bucket.hashes()
    assert len(objects) > 20
    bucket.emptied()
    for step in sorted(chosen(steps)):
        copy = _copy(home, str(step))
        assert processes.run([copy], org_id, step, WORK)["died"]
        assert bucket.hashes().items() <= objects.items(), steps[step]
        [state] = processes.run([copy], org_id, None, WORK)["states"]
        assert state["exports"] == expected["exports"], steps[step]
        assert bucket.hashes() == objects, steps[step]
        bucket.emptied()
        shutil.rmtree(copy)


def _last(steps: list[str]) -> set[int]:
    return set({name: step for step, name in enumerate(steps)}.values())


def _copy(home, name):
    return copy_home(home, home.with_name(name))


BOTH = """
import sys
from meterlake.model.values import failpoint
from meterlake.pipeline.export.run import run_to_end
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
        exported = run_to_end(opened.stores, job.id)
        print(job.id, "export.finished" in ran, exported.manifest_url, flush=True)
"""


@IN_S3_TOO
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
