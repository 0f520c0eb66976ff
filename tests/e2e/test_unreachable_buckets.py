"""A worker says at its start which buckets it cannot reach, before a server of S3 that checks who asks."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from meterlake.pipeline.export.destinations import unreachable_from_here
from tests.doubles.destinations import S3, configured, destination
from tests.homes import a_home

pytest_plugins = ["tests.doubles.fixtures"]
WAIT_S = 40
SERVERS = ["moto", pytest.param("radosgw", marks=pytest.mark.slow)]


@pytest.fixture(params=SERVERS)
def bucket(request, new_place):
    """A bucket that is there, and where its server is."""
    place = new_place(request.param)
    return place.url.split("/")[2], place.endpoints["s3_endpoint"]


@pytest.fixture
def home(tmp_path, bucket):
    with a_home(tmp_path) as made:
        configured(made, export_credentials="own", s3_endpoint=bucket[1])
        yield made


def test_a_bucket_that_is_there_is_reached_and_one_that_is_not_is_named(home, bucket):
    destination(home, **S3 | {"bucketName": bucket[0]})
    assert list(unreachable_from_here(home.stores)) == []

    destination(home, **S3 | {"bucketName": "nobody-has-this-one"})
    [said] = unreachable_from_here(home.stores)
    assert said.startswith("destination 'theirs-")
    assert "nobody-has-this-one" in said


def test_a_server_that_nobody_runs_is_named(home, bucket):
    destination(home, **S3 | {"bucketName": bucket[0]})
    configured(home, s3_endpoint="http://127.0.0.1:9")

    [said] = unreachable_from_here(home.stores)
    assert "cannot be reached from here" in said


@pytest.mark.slow
def test_a_worker_says_it_at_its_start(home, bucket):
    destination(home, **S3 | {"bucketName": "nobody-has-this-one"})
    with worker(home.stores.home, METERLAKE_S3_ENDPOINT=bucket[1]) as process:
        ending = threading.Timer(WAIT_S, process.kill)
        ending.start()
        said = next((line for line in process.stderr if "nobody-has-this-one" in line), "")
        ending.cancel()

    assert "cannot be reached from here" in said


@contextmanager
def worker(home, **variables):
    own = {name: each for name, each in os.environ.items() if not name.startswith("METERLAKE_")}
    names = {"METERLAKE_HOME": str(home), "METERLAKE_EXPORT_CREDENTIALS": "own", **variables}
    command = [sys.executable, "-m", "meterlake.worker"]
    environment = {**own, "METERLAKE_PREFECT_URL": "", **names}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(WAIT_S)
