"""What goes wrong on the way to S3, request by request: answers of the real store, cut connections."""

import hashlib
import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import boto3
import botocore.retries.standard
import pytest

from meterlake.model.errors import Invalid, NotFound, ObjectExists, Unavailable
from meterlake.settings import Settings
from meterlake.stores.objects import ObjectStore, open_objects, s3
from meterlake.stores.objects.base import Refused
from tests.doubles import ceph
from tests.doubles.http_faults import Cut, Relay, relay, s3_error

pytest_plugins = ["tests.doubles.fixtures"]

# The emulator takes parts of any size, a server none below 5 MiB.
PARTS = {"moto": 64 << 10, "radosgw": 5 << 20}
BUCKET = "faults"
STEPS = ["create", "part 1", "part 2", "part 3", "complete"]
_numbers = itertools.count()


@dataclass
class World:
    """A bucket, the store in it as it is reached over a relay, and the same without."""

    network: Relay
    client: Any
    kind: str
    content: bytes
    store: ObjectStore
    direct: ObjectStore

    def another(self) -> ObjectStore:
        """The store once more, with credentials and connections of its own."""
        return open_objects(f"s3://{BUCKET}/p", Settings(s3_endpoint=self.network.url))

    def uploads(self) -> list[str]:
        """The keys of uploads in parts that have not ended."""
        found = self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        return [each["Key"].removeprefix("p/") for each in found]


@pytest.fixture(scope="module", params=["moto", pytest.param("radosgw", marks=pytest.mark.slow)])
def world(request):
    """A server for which tries follow each other at once, and what goes there in three parts."""
    server, part = request.getfixturevalue(request.param), PARTS[request.param]
    backoff = botocore.retries.standard.ExponentialBackoff
    with pytest.MonkeyPatch.context() as patch, relay(server) as network:
        patch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
        patch.setattr(s3, "PART_BYTES", part)
        patch.setattr(backoff, "delay_amount", lambda *_: 0.001)
        # One client fails more often here than others do in a year.
        patch.setattr("botocore.retries.quota.RetryQuota.acquire", lambda *_: True)
        patch.setenv("AWS_ACCESS_KEY_ID", ceph.ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", ceph.SECRET_KEY)
        patch.setenv("AWS_CONFIG_FILE", "/none")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")
        client = boto3.client("s3", endpoint_url=server, region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        direct = open_objects(f"s3://{BUCKET}/p", Settings(s3_endpoint=server))
        content = os.urandom(2 * part + 5)
        made = World(network, client, request.param, content, direct, direct)
        made.store = made.another()
        yield made
        client.close()


@pytest.fixture
def network(world):
    """The relay, which does nothing but relaying yet."""
    world.network.rule = lambda _: None
    world.network.asked.clear()
    return world.network


@pytest.fixture
def key():
    """A key that nothing is under."""
    return f"k{next(_numbers)}"


def failing(step: str, times: int, fail):
    """A rule that lets a step fail some times."""
    left = [times]

    def rule(asked):
        if asked.step == step and left[0]:
            left[0] -= 1
            return fail()
        return None

    return rule


def cut(when):
    def fail():
        raise Cut(when)

    return fail


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_connection_that_is_cut_in_any_part_is_mended(world, network, key, step, when):
    network.rule = failing(step, 2, cut(when))
    world.store.put_bytes(key, world.content, create_only=True)
    # Nobody knows the names of uploads whose answers were lost.
    nameless = 2 if (step, when) == ("create", "after") else 0

    assert network.steps().count(step) == 3
    assert world.direct.get(key) == world.content
    assert world.store.abort_uploads([key]) == nameless
    assert world.uploads() == []


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_never_succeeds_leaves_nothing(world, network, key, step):
    network.rule = failing(step, 10**6, cut("before"))
    with pytest.raises(Unavailable):
        world.store.put_bytes(key, world.content, create_only=True)

    with pytest.raises(NotFound):
        world.direct.head(key)
    assert world.uploads() == []


def test_an_answer_that_is_always_lost_does_not_hide_what_was_done(world, network, key):
    network.rule = failing("complete", 10**6, cut("after"))
    with pytest.raises(Unavailable):
        world.store.put_bytes(key, world.content, create_only=True)
    sent = len(network.asked)
    world.store.put_bytes(key, world.content, create_only=True)

    assert network.steps()[sent:] == ["HEAD"]
    assert world.direct.get(key) == world.content


def test_what_is_put_once_more_is_not_sent_once_more(world, network, key, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"small")
    world.store.put_file(key, path, create_only=True, look_first=True)
    assert network.steps() == ["HEAD", "PUT"]
    world.store.put_file(key, path, create_only=True, look_first=True)
    assert network.steps() == ["HEAD", "PUT", "HEAD"]
    path.write_bytes(b"other")
    with pytest.raises(ObjectExists):
        world.store.put_file(key, path, create_only=True, look_first=True)


@pytest.mark.long
def test_who_puts_the_same_large_object_at_once_puts_it_once(world, network, key):
    stores = [world.store, world.direct] * 2
    with ThreadPoolExecutor(len(stores)) as pool:
        puts = [
            pool.submit(each.put_bytes, key, world.content, create_only=True) for each in stores
        ]
    assert {put.result().sha256 for put in puts} == {hashlib.sha256(world.content).hexdigest()}

    assert network.steps()
    assert world.direct.get(key) == world.content
    assert world.uploads() == []


@pytest.mark.long
def test_who_loses_its_parts_to_another_executor_can_put_again(world, network, key):
    def rule(asked) -> None:
        if asked.step == "complete":
            world.direct.abort_uploads([key])

    network.rule = rule
    with pytest.raises(Unavailable):
        world.store.put_bytes(key, world.content, create_only=True)
    network.rule = lambda _: None
    world.store.put_bytes(key, world.content, create_only=True)

    assert world.direct.get(key) == world.content


def test_parts_that_could_not_be_thrown_away_are_found_later(world, network):
    def rule(asked) -> None:
        if asked.step in {"part 2", "abort"}:
            raise Cut

    network.rule = rule
    for key in ("a/1", "a/2", "b/3"):
        with pytest.raises(Unavailable):
            world.store.put_bytes(key, world.content, create_only=True)
    lost = ["abort"]

    def answer_is_lost_once(asked) -> None:
        if asked.step in lost:
            lost.remove(asked.step)
            raise Cut("after")

    network.rule = answer_is_lost_once
    assert world.store.abort_uploads([]) == 0
    assert world.store.abort_uploads(["a/1", "a/2", "a/4"]) == 2
    assert lost == []
    assert world.uploads() == ["b/3"]
    assert world.store.abort_uploads(["b/3"]) == 1
    assert world.store.abort_uploads(["b/3"]) == 0


@pytest.mark.parametrize("step", [*STEPS, "PUT"])
def test_a_store_that_is_busy_is_asked_again(world, network, key, step):
    network.rule = failing(step, 3, lambda: s3_error(503, "SlowDown"))
    content = b"small" if step == "PUT" else world.content
    world.store.put_bytes(key, content, create_only=True)

    assert network.steps().count(step) == 4
    assert world.direct.get(key) == content


@pytest.mark.parametrize(
    ("answer", "kind", "told"),
    [
        ((503, "SlowDown"), Unavailable, "SlowDown"),
        ((400, "RequestTimeout"), Unavailable, "RequestTimeout"),
        ((404, "NoSuchUpload"), Unavailable, "NoSuchUpload"),
        ((400, "ExpiredToken"), Unavailable, "the credentials have ended"),
        ((404, "NoSuchBucket"), NotFound, "no bucket"),
        ((403, "AccessDenied"), Refused, "access is refused"),
        ((403, "RequestTimeTooSkewed"), Refused, "RequestTimeTooSkewed"),
        ((400, "EntityTooLarge"), Invalid, "EntityTooLarge"),
    ],
)
def test_what_the_store_says_is_told_and_nothing_is_left(world, network, key, answer, kind, told):
    network.rule = failing("part 2", 10**6, lambda: s3_error(*answer))
    with pytest.raises(kind, match=told):
        world.store.put_bytes(key, world.content, create_only=True)

    assert world.uploads() == []


def test_credentials_that_end_are_looked_for_again(world, network, key, monkeypatch):
    if world.kind != "moto":
        pytest.skip("it knows no other keys")
    network.rule = lambda asked: (
        s3_error(400, "ExpiredToken") if "OLD" in asked.headers["Authorization"] else None
    )
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OLD")
    store = world.another()
    for content in (b"small", world.content):
        with pytest.raises(Unavailable, match="the credentials have ended"):
            store.put_bytes(key, content, create_only=True)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "NEW")
    store.put_bytes(key, b"small", create_only=True)

    assert world.direct.get(key) == b"small"


def wrong_region(asked):
    """As AWS answers what is signed for another region than the bucket's."""
    scope = asked.headers["Authorization"].split("Credential=")[1].split(",")[0]
    if scope.split("/")[2] == "eu-central-1":
        return None
    region = "<Region>eu-central-1</Region>"
    return s3_error(400, "AuthorizationHeaderMalformed", region, x_amz_bucket_region="eu-central-1")


@pytest.mark.parametrize("large", [False, True])
def test_a_bucket_in_another_region_is_followed(world, network, key, large):
    content = world.content if large else b"small"
    network.rule = wrong_region
    world.another().put_bytes(key, content, create_only=True)

    assert world.direct.get(key) == content
    assert world.uploads() == []


def test_a_bucket_that_cannot_be_followed_is_told_with_its_region(world, network, key):
    network.rule = lambda _: s3_error(301, "PermanentRedirect", x_amz_bucket_region="eu-central-1")
    with pytest.raises(
        Invalid, match=r"the bucket is in eu-central-1; set that region \(PermanentRedirect"
    ):
        world.another().put_bytes(key, b"x", create_only=True)


def test_who_may_only_write_writes_but_cannot_tell_whose_it_is(world, network, key):
    if world.kind != "moto":
        pytest.skip("it knows no condition on completing an upload in parts")
    network.rule = lambda asked: (
        None if asked.method in {"PUT", "POST"} else s3_error(403, "AccessDenied")
    )
    large = f"{key}-large"
    world.store.put_bytes(key, b"small", create_only=True)
    world.store.put_bytes(large, world.content, create_only=True)

    assert world.direct.get(large) == world.content
    for again, content in ((key, b"small"), (large, world.content)):
        with pytest.raises(Refused, match="may not be read"):
            world.store.put_bytes(again, content, create_only=True)
    network.rule = lambda _: None
    assert world.store.abort_uploads([large]) == 1  # It was not allowed to do that either.
    world.store.put_bytes(key, b"small", create_only=True)
    with pytest.raises(ObjectExists):
        world.store.put_bytes(key, b"other", create_only=True)
