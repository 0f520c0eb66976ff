"""A worker that was told less than the server: it takes what the home knows, or leaves the job."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from meterlake.model.errors import Busy
from meterlake.pipeline.export.destinations import missing_here, unreachable_from_here
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.stores import open_stores
from meterlake.stores.home_settings import change
from meterlake.stores.state import JobStatus
from meterlake.worker.rounds import EXPORTS
from tests.doubles.destinations import GCS, LOCAL, S3, configured, destination, usage
from tests.homes import HEADER, a_home, configure, csv_row, open_home, settings
from tests.rounds import go_round

WAIT_S = 120


@pytest.fixture
def waiting(tmp_path):
    """A home whose server knows the folder of exports, and the job of an export into it."""
    with a_home(tmp_path) as made:
        path, org_id = made.stores.home, made.org_id
    (tmp_path / "out").mkdir()
    with open_home(path, org_id, export_folder=tmp_path / "out") as home:
        organization = home.stores.organization(org_id)
        configure(organization, features={"preview": True})
        home.ingest("a.csv", HEADER + csv_row("u1"))
        id_ = destination(home, bucketName="books", **LOCAL)
        yield home, submit_export(organization, usage(id_))


@contextmanager
def worker(home, **variables):
    environment = {
        **{name: each for name, each in os.environ.items() if not name.startswith("METERLAKE_")},
        "METERLAKE_HOME": str(home),
        "METERLAKE_PREFECT_URL": "",
        **variables,
    }
    command = [sys.executable, "-m", "meterlake.worker"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WAIT_S)


@pytest.mark.slow
def test_a_worker_without_the_variable_exports_into_the_folder_of_the_home(waiting, tmp_path):
    home, id_ = waiting
    with worker(home.stores.home) as process:
        give_up = time.monotonic() + WAIT_S
        while home.stores.state.jobs.get(id_).finished is None:
            assert time.monotonic() < give_up
            assert process.poll() is None
            time.sleep(0.2)

    assert home.stores.state.jobs.get(id_).status is JobStatus.COMPLETE
    assert list((tmp_path / "out" / "books").rglob("*.csv*"))


@pytest.mark.slow
def test_a_worker_with_another_folder_does_not_start_and_says_why(waiting, tmp_path):
    home, id_ = waiting
    with worker(home.stores.home, METERLAKE_EXPORT_FOLDER=str(tmp_path / "other")) as process:
        _, said = process.communicate(timeout=WAIT_S)

    assert process.returncode == 1
    assert len(said.strip().splitlines()) == 1
    assert "METERLAKE_EXPORT_FOLDER is " in said
    assert home.stores.state.jobs.get(id_).status is JobStatus.PENDING


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize(
    ("bucket", "missing"),
    [
        (S3, "this machine has no AWS credentials, destination 'theirs-"),
        (GCS | {"destinationType": "GCS"}, "this machine has no AWS credentials"),
    ],
    ids=["s3", "gcs"],
)
def test_a_process_without_credentials_leaves_exports_to_buckets_alone(
    waiting, monkeypatch, bucket, missing
):
    home, _ = waiting
    id_ = submit_export(home.organization, usage(destination(home, **bucket)))

    with pytest.raises(Busy, match=missing):
        run_export(home.stores, id_)

    job = home.stores.state.jobs.get(id_)
    assert (job.status, job.attempt, job.error) == (JobStatus.PENDING, 0, None)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert missing_here(home.stores, job) is None


@pytest.mark.usefixtures("no_credentials")
def test_a_pool_of_google_needs_the_token_file_where_one_is_set(waiting, tmp_path):
    home, _ = waiting
    token = tmp_path / "token"
    asked = usage(destination(home, destinationType="GCS", **GCS))
    job = home.stores.state.jobs.get(submit_export(home.organization, asked))
    configured(home, federation_token_file=token)

    assert "METERLAKE_FEDERATION_TOKEN_FILE is not there" in missing_here(home.stores, job)
    token.write_text("x")
    assert missing_here(home.stores, job) is None


@pytest.mark.long
def test_an_export_waits_for_a_folder_that_is_not_there_yet(waiting, tmp_path, caplog):
    home, id_ = waiting
    (tmp_path / "out").rmdir()
    looks = iter(range(10))

    go_round(EXPORTS, home.stores, lambda: next(looks, None) is None, 0)

    job = home.stores.state.jobs.get(id_)
    assert (job.status, job.attempt, job.error) == (JobStatus.PENDING, 0, None)
    folder = tmp_path / "out"
    reason = f"METERLAKE_EXPORT_FOLDER {folder} is not there"
    assert len([each for each in caplog.messages if reason in each]) == 1
    [said] = unreachable_from_here(home.stores)
    assert said.startswith("destination 'theirs-")
    assert said.endswith(f"cannot be reached from here: {reason}")
    folder.mkdir()
    assert list(unreachable_from_here(home.stores)) == []
    looks = iter(range(10))
    go_round(EXPORTS, home.stores, lambda: next(looks, None) is None, 0)
    assert home.stores.state.jobs.get(id_).status is JobStatus.COMPLETE


@pytest.mark.slow
def test_a_worker_says_at_its_start_which_destinations_it_cannot_reach(waiting, tmp_path):
    home, _ = waiting
    (tmp_path / "out").rmdir()
    with worker(home.stores.home) as process:
        said = next(line for line in process.stderr if "cannot be reached" in line)
    assert " WARNING meterlake.worker: destination 'theirs-" in said
    assert f"METERLAKE_EXPORT_FOLDER {tmp_path / 'out'} is not there" in said


@pytest.mark.long
def test_a_process_that_cannot_run_a_job_leaves_it_to_one_that_can(waiting, caplog):
    home, id_ = waiting
    change(home.stores.settings, "export_folder", None)  # A home of before it kept settings.
    looks = iter(range(10))
    with open_stores(settings(home.stores.home, prefect_url=""), home.clock) as poor:
        go_round(EXPORTS, poor, lambda: next(looks, None) is None, 0)
        with pytest.raises(Busy, match="METERLAKE_EXPORT_FOLDER is not set"):
            run_export(poor, id_)

    job = home.stores.state.jobs.get(id_)
    assert (job.status, job.attempt, job.error) == (JobStatus.PENDING, 0, None)
    waits = [each for each in caplog.messages if "waits, or another worker" in each]
    assert len(waits) == 1
    run_export(home.stores, id_)
    assert home.stores.state.jobs.get(id_).status is JobStatus.COMPLETE
