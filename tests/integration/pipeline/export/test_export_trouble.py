"""Exports to destinations in a world that fails: stores that are busy or gone, executors that die."""

import os
import signal
import subprocess
import sys
import threading

import boto3
import pytest

from meterlake.model.errors import Busy, NotFound, StaleVersion, Unavailable
from meterlake.model.values import failpoint
from meterlake.pipeline.export.run import export, run_export, submit_export
from meterlake.stores.objects import s3
from meterlake.stores.state import JobStatus
from tests.doubles.destinations import S3, configured, destination, hashes, usage
from tests.doubles.http_faults import Cut, relay, s3_error

pytest_plugins = ["tests.doubles.fixtures"]


@pytest.fixture
def home(export_home):
    return export_home


@pytest.fixture
def bucket(export_bucket):
    return export_bucket


@pytest.mark.long
def test_a_store_that_is_busy_for_long_is_waited_for(home, bucket):
    place, name = bucket
    left = [9]  # Two times the library gives up; the export does not.

    def busy(asked):
        if asked.method != "PUT" or not left[0]:
            return None
        left[0] -= 1
        return s3_error(503, "SlowDown")

    with relay(place.server) as network:
        network.rule = busy
        configured(home, s3_endpoint=network.url, export_attempts=3, export_credentials="own")
        id_ = destination(home, bucketName=name, **S3)
        exported = export(home.organization, usage(id_))
        keys = [asked.path for asked in network.asked if asked.method == "PUT"]

    job = home.stores.state.jobs.recent(home.org_id)[0]
    assert job.status is JobStatus.COMPLETE
    files = exported.manifest["files"]
    assert len(keys) == 9 + len(files) + 1  # What is there already is not put again.


@pytest.mark.long
def test_a_bucket_that_vanishes_between_two_files_fails_and_can_be_put_right(
    home, bucket, monkeypatch
):
    place, name = bucket
    configured(home, s3_endpoint=place.server, export_credentials="own")
    client = boto3.client("s3", endpoint_url=place.server, region_name="us-east-1")

    objects = place.open()

    def remove(reached):
        if reached == "export.file_put":
            for info in objects.list():
                objects.delete(info.key)
            client.delete_bucket(Bucket=name)

    job_id = submit_export(
        home.organization, usage(destination(home, bucketName=name, prefix="some/prefix", **S3))
    )
    monkeypatch.setattr(failpoint, "hook", remove)
    with pytest.raises(NotFound, match="no bucket"):
        run_export(home.stores, job_id)
    job = home.stores.state.jobs.get(job_id)
    assert (job.status, "no bucket" in job.error) == (JobStatus.FAILED, True)

    monkeypatch.setattr(failpoint, "hook", None)
    client.create_bucket(Bucket=name)
    home.stores.state.jobs.retry(home.org_id, job_id, job.kind)
    exported = run_export(home.stores, job_id)
    assert all(hashes(objects, exported.manifest))
    client.close()


@pytest.mark.long
def test_of_two_executors_of_one_job_one_works_and_what_it_put_is_whole(home, bucket, monkeypatch):
    place, name = bucket
    configured(home, s3_endpoint=place.server, export_credentials="own")
    id_ = destination(home, bucketName=name, prefix="some/prefix", **S3)
    job_id = submit_export(home.organization, usage(id_))
    halfway, go_on, late = threading.Event(), threading.Event(), []

    def pause(reached):
        if reached == "export.file_put":
            halfway.set()
            go_on.wait(60)

    def work():
        try:
            run_export(home.stores, job_id)
        except StaleVersion as error:
            late.append(error)

    monkeypatch.setattr(failpoint, "hook", pause)
    (first := threading.Thread(target=work)).start()
    assert halfway.wait(60)
    with pytest.raises(Busy):
        run_export(home.stores, job_id)
    home.clock.later(minutes=20)  # It looks dead, but it holds the job's folder.
    with pytest.raises(Busy, match="another process writes"):
        run_export(home.stores, job_id)
    go_on.set()
    first.join()
    assert len(late) == 1  # It stops before the manifest; what it put is right.

    objects = place.open()
    before = {*objects.list()}
    exported = run_export(home.stores, job_id)
    # Nothing was put again, and nothing but the manifest came.
    assert exported.manifest_url.endswith(*[each.key for each in {*objects.list()} - before])
    assert all(hashes(objects, exported.manifest))


@pytest.mark.long
def test_parts_that_could_not_be_thrown_away_go_at_the_next_attempt(home, bucket, monkeypatch):
    place, name = bucket
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    monkeypatch.setattr(s3, "PART_BYTES", 100)
    objects = place.open()

    def rule(asked) -> None:
        if asked.step in {"part 2", "abort"}:
            raise Cut

    with relay(place.server) as network:
        configured(home, s3_endpoint=network.url, export_attempts=2, export_credentials="own")
        id_ = destination(home, bucketName=name, prefix="some/prefix", **S3)
        job_id = submit_export(home.organization, usage(id_))
        network.rule = rule
        with pytest.raises(Unavailable):
            run_export(home.stores, job_id)
        assert [*objects.list()] == []
        network.rule = lambda _: None
        home.clock.later(minutes=2)
        network.asked.clear()
        exported = run_export(home.stores, job_id)

    assert network.steps()[:3] == ["uploads", "abort", "abort"]
    assert objects.abort_uploads([file["key"] for file in exported.manifest["files"]]) == 0
    assert all(hashes(objects, exported.manifest))


def test_who_may_not_look_for_parts_exports_all_the_same(home, bucket):
    place, name = bucket
    with relay(place.server) as network:
        network.rule = lambda asked: (
            s3_error(403, "AccessDenied") if asked.step == "uploads" else None
        )
        configured(home, s3_endpoint=network.url, export_credentials="own")
        id_ = destination(home, bucketName=name, **S3)
        export(home.organization, usage(id_))

    assert home.stores.state.jobs.recent(home.org_id)[0].status is JobStatus.COMPLETE


KILLED = """
import sys
from meterlake.model.values import failpoint
from meterlake.pipeline.export.run import run_export
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.objects import s3
from tests.doubles.homes import Clock
from tests.killing import die_at

home, endpoint, job_id = sys.argv[1:]
failpoint.hook = die_at("objects.part_put", 2)
s3.PART_BYTES = 100
with open_stores(Settings(home=home, s3_endpoint=endpoint), Clock()) as stores:
    run_export(stores, job_id)
"""


@pytest.mark.slow
def test_parts_of_a_killed_executor_are_thrown_away(home, bucket, monkeypatch):
    place, name = bucket
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    configured(home, s3_endpoint=place.server, export_credentials="own")
    id_ = destination(home, bucketName=name, prefix="some/prefix", **S3)
    job_id = submit_export(home.organization, usage(id_))
    command = [sys.executable, "-c", KILLED, str(home.stores.home), place.server, job_id]
    killed = subprocess.run(command, check=False, env=os.environ | {"PYTHONPATH": "src:."})
    client = boto3.client("s3", endpoint_url=place.server, region_name="us-east-1")
    [left] = client.list_multipart_uploads(Bucket=name)["Uploads"]
    client.create_multipart_upload(Bucket=name, Key="some/prefix/of/others")

    assert killed.returncode == -signal.SIGKILL
    monkeypatch.setattr(s3, "PART_BYTES", 100)
    home.clock.later(minutes=20)
    exported = run_export(home.stores, job_id)
    after = client.list_multipart_uploads(Bucket=name)["Uploads"]
    client.close()

    assert left["Key"].removeprefix("some/prefix/") in {
        file["key"] for file in exported.manifest["files"]
    }
    assert [each["Key"] for each in after] == ["some/prefix/of/others"]
    assert all(hashes(place.open(), exported.manifest))
