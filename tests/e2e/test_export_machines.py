"""Two machines at one job at the same time: whoever is believed, there is one set of objects.

They are two homes that share State, the lake and the objects, but not the folder in which exports
are staged, whose lock keeps processes of one machine apart. The clock of the second one is ahead, so
that it takes the jobs of the first for dead.
"""

import hashlib
import shutil
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from sqlalchemy import make_url

from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.home.setup import initialize
from meterlake.stores.state import JobStatus
from tests.databases import administrate
from tests.e2e.exporting import LOCAL, S3, configured, contents, jobs_of, prepared
from tests.e2e.machines import NEVER, Machine, machine
from tests.homes import ACCOUNTS, CALLS, EGRESS, configure, open_home, settings
from tests.postgres import missing

pytest_plugins = ["tests.doubles.fixtures"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

JOBS = 5
# Where the first one is when the second one takes the job, where that one is then, and who goes on
# before the other. The second goes through without a stop where the first is stuck for so long.
IN_A_FOLDER = [
    (0, "objects.put_linked", NEVER, "second"),
    (1, "export.staged", "export.file_staged", "both"),
    (2, "export.file_put", "export.file_put", "both"),
    (3, "export.manifest_put", "export.taken", "first"),
    (4, "export.file_staged", "export.staged", "both"),
]
IN_A_BUCKET = [
    # Each throws away the parts that the other has just put.
    (0, "objects.part_put", "objects.part_put", "first"),
    (1, "export.kept", "export.kept", "both"),
    (2, "objects.part_put", NEVER, "second"),
    (3, "export.file_put", "objects.part_put", "both"),
    (4, "export.manifest_put", "objects.part_put", "first"),
]
_numbers = count()


class World:
    """Two homes of one organization, and a copy of the first in a State of its own."""

    def __init__(self, folder: Path, server: str, endpoint: str | None) -> None:
        self.first, self.second, self.alone = (folder / n for n in ("first", "second", "alone"))
        name = f"machines_{next(_numbers)}"
        administrate(server, f"CREATE DATABASE {name} TEMPLATE template_state")
        self.state = _database(server, name)
        made = initialize(settings(self.first, state=self.state), "Sample")
        self.org_id = made.org_id
        with open_home(self.first, made.org_id, state=self.state) as home:
            configure(
                home.stores.organization(made.org_id), meters=[EGRESS, CALLS], accounts=ACCOUNTS
            )
            prepared(home, **(LOCAL if endpoint is None else S3))
        if endpoint is not None:
            (self.first / "endpoint").write_text(endpoint)
        (self.first / "objects").mkdir(exist_ok=True)
        shutil.copytree(self.first, self.alone)
        # The copy is a home of its own, which says where its State is when it is opened.
        (self.alone / "settings.json").unlink()
        administrate(server, f"CREATE DATABASE {name}_alone TEMPLATE {name}")
        self.own_state = _database(server, f"{name}_alone")
        self.second.mkdir()
        for shared in self.first.iterdir():
            if shared.name != "staging":
                (self.second / shared.name).symlink_to(shared)

    def undisturbed(self) -> dict[str, str]:
        """Run all jobs in the copy; what is kept for downloads then."""
        with machine(self.alone, self.org_id, self.own_state) as only:
            for job in range(JOBS):
                only.tell(f"{job} {NEVER}")
                assert only.says() == "complete"
        return contents(self.alone / "objects" / "exports")

    def fought_over(self, rounds: list[tuple[int, str, str, str]]) -> None:
        """Have both machines run every job."""
        with (
            machine(self.first, self.org_id, self.state) as first,
            machine(self.second, self.org_id, self.state, later_minutes=20) as second,
        ):
            for number, here, there, order in rounds:
                first.until(number, here)
                assert _both(first, second, (number, there), order) == ("StaleVersion", "complete")

    def expect_done(self) -> None:
        """What has to be true afterwards, whatever the destination is."""
        assert [*self.second.glob("staging/exports/*")] == []
        # Who lost a job leaves what it staged to whoever has it, who is elsewhere; upkeep removes it.
        left = {path.name for path in self.first.glob("staging/exports/*")}
        with open_home(self.first, self.org_id, state=self.state) as home:
            configured(home)
            jobs = jobs_of(home)
            assert left <= {job.id for job in jobs}
            for job in jobs:
                assert (job.status, job.attempt) == (JobStatus.COMPLETE, 2)
                for place in job.result["places"]:
                    assert verify(home.stores.settings, place["manifest"]) == []


def _both(first: Machine, second: Machine, order: tuple[int, str], who: str) -> tuple[str, str]:
    """The second takes a job from the first; how it ended for each of them."""
    job, step = order
    if step == NEVER:
        second.tell(f"{job} {step}")
        assert who == "second"
        later = second.says()
        return first.result(), later
    second.until(job, step)
    if who == "first":
        sooner = first.result()
        return sooner, second.result()
    first.tell("go")
    second.tell("go")
    return first.says(), second.says()


def _database(server: str, name: str) -> str:
    return str(make_url(server).set(database=name))


def test_two_machines_at_the_same_jobs_leave_the_same_files_in_a_folder(postgresql, tmp_path):
    world = World(tmp_path, postgresql, None)
    kept = world.undisturbed()
    objects = contents(world.alone / "out")
    world.fought_over(IN_A_FOLDER)

    assert contents(world.first / "out") == objects
    assert contents(world.first / "objects" / "exports") == kept
    # One job has two destinations, and one has none.
    assert len([key for key in objects if key.endswith("_manifest.json")]) == JOBS
    world.expect_done()


def test_two_machines_at_the_same_jobs_leave_the_same_objects_in_a_bucket(
    postgresql, moto, s3_credentials, monkeypatch, tmp_path
):
    assert s3_credentials
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    client: Any = boto3.client("s3", endpoint_url=moto, region_name="us-east-1")
    client.create_bucket(Bucket="theirs")

    def found() -> dict[str, str]:
        listed = client.list_objects_v2(Bucket="theirs").get("Contents", ())
        got = {each["Key"]: client.get_object(Bucket="theirs", Key=each["Key"]) for each in listed}
        return {key: hashlib.sha256(each["Body"].read()).hexdigest() for key, each in got.items()}

    world = World(tmp_path, postgresql, moto)
    kept = world.undisturbed()
    objects = found()
    for key in objects:
        client.delete_object(Bucket="theirs", Key=key)
    world.fought_over(IN_A_BUCKET)

    assert found() == objects
    assert contents(world.first / "objects" / "exports") == kept
    assert client.list_multipart_uploads(Bucket="theirs").get("Uploads", []) == []
    world.expect_done()
    client.close()
