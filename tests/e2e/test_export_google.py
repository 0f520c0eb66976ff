"""Exports to buckets of Google that are not there, or not there any more."""

import itertools
from contextlib import closing
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage

from meterlake.model.errors import NotFound
from meterlake.model.values import failpoint
from meterlake.model.work.export_request import KIND, ExportRequest, Source
from meterlake.pipeline.export.run import export, run_export, submit_export
from meterlake.stores.state import JobStatus
from tests.doubles.destinations import GCS, configured, destination
from tests.e2e.exporting import TYPES, rebilled

pytest_plugins = ["tests.doubles.fixtures"]
_numbers = itertools.count()


@pytest.fixture
def home(export_home, strict_gcs, s3_credentials):
    assert s3_credentials  # of no cloud at all
    configured(export_home, gcs_endpoint=strict_gcs, export_credentials="own")
    return export_home


@pytest.fixture
def google(strict_gcs):
    """Google's own client."""
    found: Any = storage.Client(
        project="none",
        credentials=AnonymousCredentials(),
        client_options={"api_endpoint": strict_gcs},
    )
    with closing(found):
        yield found


def billed(id_: str) -> ExportRequest:
    return ExportRequest(source=Source.OPERATIONAL, types=TYPES, destination_ids=(id_,))


def contents(bucket) -> dict[str, bytes]:
    return {each.name: each.download_as_bytes() for each in bucket.list_blobs()}


def test_a_bucket_that_was_never_made_fails_the_job_with_its_name(home):
    id_ = destination(home, bucketName="never-made", **GCS)
    with pytest.raises(NotFound, match="gs://never-made/"):
        export(home.organization, billed(id_))

    job = home.stores.state.jobs.recent(home.org_id)[0]
    assert (job.status, "gs://never-made/" in job.error) == (JobStatus.FAILED, True)


def test_a_bucket_that_vanishes_between_two_files_gets_the_same_ones_when_it_is_back(
    home, google, monkeypatch
):
    name = f"vanishing-{next(_numbers)}"
    bucket = google.create_bucket(name)
    id_ = destination(home, bucketName=name, prefix="some/prefix", **GCS)
    job_id = submit_export(home.organization, billed(id_))
    before: dict[str, bytes] = {}

    def remove(reached):
        if reached == "export.file_put" and len(contents(bucket)) == 2:
            before.update(contents(bucket))
            bucket.delete(force=True)

    monkeypatch.setattr(failpoint, "hook", remove)
    with pytest.raises(NotFound, match=f"gs://{name}/"):
        run_export(home.stores, job_id)
    monkeypatch.setattr(failpoint, "hook", None)
    job = home.stores.state.jobs.get(job_id)
    assert (job.status, f"gs://{name}/" in job.error) == (JobStatus.FAILED, True)

    # Somebody puts one of its files back, and the bills come to more meanwhile.
    rebilled(home)
    bucket = google.create_bucket(name)
    first = min(before)
    bucket.blob(first).upload_from_string(before[first])
    home.stores.state.jobs.retry(home.org_id, job_id, KIND)
    exported = run_export(home.stores, job_id)

    after = contents(bucket)
    assert before.items() <= after.items()
    assert len(before) == 2
    assert len(after) == len(exported.manifest["files"]) + 1 == len(TYPES) + 1
