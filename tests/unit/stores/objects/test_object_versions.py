"""Versions of objects: what was listed is what is fetched, copied, tagged and removed, or nothing."""

import boto3
import pytest

from meterlake.model.errors import Invalid, MeterlakeError, NotFound
from meterlake.stores.objects import ObjectInfo, ObjectStore

pytest_plugins = ["tests.doubles.fixtures"]


@pytest.fixture(params=["local", "moto", "gs", pytest.param("radosgw", marks=pytest.mark.slow)])
def place(request, new_place):
    return new_place(request.param)


@pytest.fixture
def store(place) -> ObjectStore:
    return place.open()


def put(store: ObjectStore, data: bytes, key: str = "in/a.csv") -> ObjectInfo:
    """Put an object and list it."""
    store.put_bytes(key, data)
    [info] = store.list(key)
    return info


def test_list_and_head_agree_on_the_version(store):
    info = put(store, b"one")

    assert info.version
    assert store.head(info.key).version == info.version


def test_what_was_replaced_has_another_version_and_is_not_fetched(store, tmp_path):
    old = put(store, b"one")
    new = put(store, b"two")

    assert new.version != old.version
    for act in (
        lambda: store.fetch(old, tmp_path / "file"),
        lambda: store.copy(old, "done/a.csv"),
        lambda: store.delete_version(old),
    ):
        with pytest.raises(NotFound):
            act()
    assert [info.key for info in store.list()] == ["in/a.csv"]
    assert store.get("in/a.csv") == b"two"


def test_what_is_gone_is_not_there(store, tmp_path):
    old = put(store, b"one")
    store.delete_version(old)

    assert list(store.list()) == []
    for act in (
        lambda: store.fetch(old, tmp_path / "file"),
        lambda: store.copy(old, "done/a.csv"),
        lambda: store.delete_version(old),
    ):
        with pytest.raises(NotFound):
            act()


def test_what_is_fetched_and_copied_is_what_was_put(store, tmp_path):
    data = bytes(range(256)) * 5_000
    info = put(store, data)

    store.fetch(info, tmp_path / "file")
    store.copy(info, "done/x/ä b?.csv")

    assert (tmp_path / "file").read_bytes() == data
    assert store.get("done/x/ä b?.csv") == data
    assert store.get(info.key) == data


def test_a_tag_tells_the_version_that_is_listed_from_then_on(place):
    store = place.open()
    info = put(store, b"one")
    if place.kind == "local":
        with pytest.raises(Invalid, match="tags"):
            store.tag(info, "meterlake", "done")
        return

    version = store.tag(info, "other", "kept")
    version = store.tag(ObjectInfo(info.key, info.size_bytes, version=version), "meterlake", "done")

    assert [each.version for each in store.list()] == [version]
    if place.kind != "gs":
        client = boto3.client("s3", endpoint_url=place.server, region_name="us-east-1")
        bucket, _, prefix = place.url.removeprefix("s3://").partition("/")
        tags = client.get_object_tagging(Bucket=bucket, Key=f"{prefix}/{info.key}")["TagSet"]
        client.close()
        assert {tag["Key"]: tag["Value"] for tag in tags} == {"other": "kept", "meterlake": "done"}


def test_bytes_that_do_not_fit_their_checksum_are_refused(new_place, tmp_path):
    store = new_place("moto").open()
    info = put(store, b"one")
    of_other_size = ObjectInfo(info.key, info.size_bytes + 1, version=info.version)

    with pytest.raises(MeterlakeError, match="3 of 4 bytes"):
        store.fetch(of_other_size, tmp_path / "file")
