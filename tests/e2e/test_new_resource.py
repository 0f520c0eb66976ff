"""A new resource is a class and a row: nothing else has to know of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    command = [sys.executable, "-m", "tests.e2e.new_resource", str(tmp_path_factory.mktemp("new"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_a_new_resource_is_created_updated_listed_and_deleted_over_http(found):
    assert [each["code"] for each in found["list"]] == ["north"]
    assert (found["update"]["version"], found["update"]["name"]) == (2, "Far north")
    assert (found["deleted"], found["gone"]) == (200, 404)


@pytest.mark.long
def test_a_new_resource_is_checked_by_the_rules_of_all(found):
    status, message = found["refused"]
    assert status == 400
    assert "planId" in message

    status, message = found["unknown"]
    assert status == 400
    assert "code" in message


@pytest.mark.long
def test_a_new_resource_has_events(found):
    assert {"configuration.depot.created", "configuration.depot.updated"} <= {*found["events"]}


@pytest.mark.slow
def test_a_new_resource_is_applied_exported_and_published(found):
    assert found["codes"] == [0, 1, 0, 0]
    assert found["exported"] == [["west", "West"]]
    assert found["published"] == [["west", "West"]]
