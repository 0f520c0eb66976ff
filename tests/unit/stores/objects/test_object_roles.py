"""A role at a server that checks signatures, tokens and policies: what it may, and what it may not."""

import os

import boto3
import pytest

from meterlake.model.configuration.exports import ExportDestination
from meterlake.model.errors import NotFound, Unavailable
from meterlake.model.values import failpoint
from meterlake.settings import Settings
from meterlake.stores.objects import ObjectStore, open_destination
from meterlake.stores.objects.base import Refused
from tests.doubles import ceph

pytest_plugins = ["tests.doubles.fixtures"]
pytestmark = pytest.mark.slow

LARGE = os.urandom(33 << 20)


@pytest.fixture
def machine(radosgw, s3_credentials, monkeypatch):
    """This machine may assume the role, and make buckets of its own."""
    assert s3_credentials
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ceph.MACHINE_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ceph.MACHINE_SECRET)
    client = boto3.client("s3", endpoint_url=radosgw, region_name="us-east-1")
    for bucket in (ceph.ROLE_BUCKET, "private"):
        client.create_bucket(Bucket=bucket)
    yield client
    client.close()


def opened(server: str, bucket: str, role: str = ceph.ROLE) -> ObjectStore:
    document = {"name": "n", "code": "c", "bucketName": bucket, "prefix": "p", "iamRoleArn": role}
    settings = Settings(s3_endpoint=server)
    return open_destination(ExportDestination.from_wire(document), "the-organization", settings)


def test_a_role_writes_what_it_may_and_nothing_else(machine, radosgw):
    store = opened(radosgw, ceph.ROLE_BUCKET)
    store.put_bytes("small", b"small", create_only=True)
    store.put_bytes("large", LARGE, create_only=True)
    store.put_bytes("large", LARGE, create_only=True)
    machine.put_object(Bucket="private", Key="p/k", Body=b"theirs")

    assert store.get("large") == LARGE
    for content in (b"ours", LARGE):
        with pytest.raises(Refused, match="access is refused"):
            opened(radosgw, "private").put_bytes("k", content, create_only=True)
    with pytest.raises(NotFound):
        opened(radosgw, "never-made").put_bytes("k", b"x", create_only=True)


def test_a_role_finds_the_parts_that_were_left(machine, radosgw):
    names = [f"p/left/{number}" for number in range(3)]
    for name in (*names, "p/others"):
        machine.create_multipart_upload(Bucket=ceph.ROLE_BUCKET, Key=name)
    store = opened(radosgw, ceph.ROLE_BUCKET)

    assert store.abort_uploads([name.removeprefix("p/") for name in names]) == 3
    left = machine.list_multipart_uploads(Bucket=ceph.ROLE_BUCKET)["Uploads"]
    assert [each["Key"] for each in left] == ["p/others"]
    machine.abort_multipart_upload(
        Bucket=ceph.ROLE_BUCKET, Key="p/others", UploadId=left[0]["UploadId"]
    )


@pytest.mark.usefixtures("machine")
def test_who_loses_its_parts_to_another_executor_can_put_again(radosgw, monkeypatch):
    store, other = opened(radosgw, ceph.ROLE_BUCKET), opened(radosgw, ceph.ROLE_BUCKET)
    monkeypatch.setattr(failpoint, "hook", lambda _: other.abort_uploads(["lost"]))
    # Where parts are still being put, the server calls it a completion in progress.
    with pytest.raises(Unavailable, match=r"NoSuchUpload|already in progress"):
        store.put_bytes("lost", LARGE, create_only=True)
    monkeypatch.setattr(failpoint, "hook", None)
    store.put_bytes("lost", LARGE, create_only=True)

    assert other.get("lost") == LARGE
    assert other.abort_uploads(["lost"]) == 0


@pytest.mark.usefixtures("machine")
def test_nobody_else_assumes_the_role(radosgw, monkeypatch):
    with pytest.raises(Refused, match="the role cannot be assumed"):
        opened(radosgw, ceph.ROLE_BUCKET, f"{ceph.ROLE}-2").put_bytes("k", b"x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(Refused, match="the role cannot be assumed"):
        opened(radosgw, ceph.ROLE_BUCKET).put_bytes("k", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ceph.ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ceph.SECRET_KEY)
    with pytest.raises(Refused, match="the role cannot be assumed"):
        opened(radosgw, ceph.ROLE_BUCKET).put_bytes("k", b"x")
