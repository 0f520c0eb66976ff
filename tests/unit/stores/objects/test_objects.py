import hashlib
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import Invalid, MeterlakeError, NotFound, ObjectExists, Unavailable
from meterlake.settings import Settings
from meterlake.stores.objects import ObjectStore, base, open_objects
from meterlake.stores.objects.base import Altered, checked_key
from tests.doubles import gcs
from tests.doubles.faults import FaultyNetwork

pytest_plugins = ["tests.doubles.fixtures"]

LARGE = 33 << 20  # five parts in S3, three chunks in GCS


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


@pytest.fixture
def store(place) -> ObjectStore:
    return place.open()


def test_what_is_put_is_there(store):
    put = store.put_bytes("a/b.json", b'{"x":1}')

    assert put.size_bytes == 7
    assert store.get("a/b.json") == b'{"x":1}'
    assert store.head("a/b.json").size_bytes == 7
    assert [(info.key, info.size_bytes) for info in store.list()] == [("a/b.json", 7)]
    assert store.url("a/b.json").endswith("/a/b.json")


def test_an_empty_object_is_an_object(store):
    store.put_bytes("empty", b"", create_only=True)

    assert store.get("empty") == b""
    assert store.head("empty").size_bytes == 0


def test_a_put_replaces(store):
    store.put_bytes("k", b"old and longer")
    store.put_bytes("k", b"new")

    assert store.get("k") == b"new"


def test_create_only_keeps_the_first_content(store):
    store.put_bytes("k", b"first", create_only=True)

    with pytest.raises(ObjectExists, match="k exists already"):
        store.put_bytes("k", b"other", create_only=True)
    assert store.get("k") == b"first"


def test_create_only_of_the_same_content_is_a_success(store):
    store.put_bytes("k", b"same", create_only=True)
    store.put_bytes("k", b"same", create_only=True)

    assert keys(store) == ["k"]


def test_one_of_twenty_racers_wins(store):
    winners, losers, others = [], [], []
    start = threading.Barrier(20)

    def race(number: int) -> None:
        start.wait()
        try:
            store.put_bytes("race", b"%d" % number, create_only=True)
            winners.append(number)
        except ObjectExists:
            losers.append(number)
        except MeterlakeError as error:
            others.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(winners), len(losers), others) == (1, 19, [])
    assert store.get("race") == b"%d" % winners[0]
    assert keys(store) == ["race"]


@pytest.mark.parametrize("size", [10, LARGE])
def test_a_file_that_is_not_what_it_was_is_not_put(store, tmp_path, size):
    path = tmp_path / "file"
    content = os.urandom(size)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    was = hashlib.sha256(content).hexdigest()

    with pytest.raises(Altered, match="changed since it was written"):
        store.put_file("k", path, create_only=True, sha256=was)
    assert keys(store) == []
    assert store.abort_uploads(["k"]) == 0

    path.write_bytes(content)
    assert store.put_file("k", path, create_only=True, sha256=was).sha256 == was


@pytest.mark.long
def test_large_files_go_up_whole(store, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(os.urandom(LARGE + 5))

    put = store.put_file("large.bin", path, create_only=True)
    store.put_file("large.bin", path, create_only=True)

    assert put.size_bytes == LARGE + 5
    with store.open("large.bin") as stream:
        assert base._sha256(stream) == put.sha256
    path.write_bytes(bytes(LARGE + 5))
    with pytest.raises(ObjectExists):
        store.put_file("large.bin", path, create_only=True)


def test_reading_is_a_stream(store):
    store.put_bytes("lines", b"one\ntwo\nthree")

    with store.open("lines") as stream:
        assert stream.readline() == b"one\n"
        assert stream.read() == b"two\nthree"


def test_what_is_not_there_is_not_found(store):
    with pytest.raises(NotFound, match="nothing"):
        store.head("nothing")
    with pytest.raises(NotFound, match="nothing"):
        store.open("nothing")
    store.put_bytes("folder/file", b"")
    with pytest.raises(NotFound):
        store.get("folder")


def test_deleting_twice_is_no_error(store):
    store.put_bytes("k", b"x")
    store.delete("k")
    store.delete("k")

    assert keys(store) == []


def test_lists_are_ordered_and_below_their_prefix(store):
    names = ["a-b/x", "a/b/1", "a/b/2", "a/bc", "a/ü", "a0", "z"]
    for name in reversed(names):
        store.put_bytes(name, b"x")

    assert keys(store) == names
    assert keys(store, "a/") == ["a/b/1", "a/b/2", "a/bc", "a/ü"]
    assert keys(store, "a/b") == ["a/b/1", "a/b/2", "a/bc"]
    assert keys(store, "q") == []


@pytest.mark.long
def test_lists_have_more_than_one_page(place, monkeypatch):
    monkeypatch.setattr(gcs, "PAGE", 50)
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "50")
    names = [f"many/{number:04}" for number in range(1010 if place.kind == "radosgw" else 110)]
    store = place.open()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put_bytes(name, b"x"), names))

    assert keys(store, "many/") == names


ODD = [
    "sp ace/ü€+&=?#%.json",
    "orgId=0af/date=2026-10-31/hour=07/x",
    "q'\"uote;,:@!$()*",
    "dots.../..a/.hidden",
    "x" * 200,
]


@pytest.mark.parametrize("key", ODD)
def test_odd_keys_are_keys(store, key):
    store.put_bytes(key, key.encode(), create_only=True)

    assert store.get(key) == key.encode()
    assert keys(store) == [key]


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        "a/./b",
        "a\nb",
        "a\0b",
        "a\\b",
        "\ud800",
        ".a.part",
        "x" * 901,
    ],
)
def test_malformed_keys_are_refused(key):
    with pytest.raises(Invalid):
        checked_key(key)


@given(st.text())
def test_every_key_that_is_accepted_stays_below_its_root(key):
    try:
        checked_key(key)
    except Invalid:
        return
    assert Path(os.path.normpath(f"/root/{key}")).is_relative_to("/root")
    assert os.path.normpath(f"/root/{key}") == f"/root/{key}"


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "s3://", "gs:///x", "s3://bucket/a/../b", "http://bucket/x"]
)
def test_malformed_urls_are_refused(url):
    with pytest.raises(Invalid):
        open_objects(url, Settings())


def test_file_urls_and_paths_are_folders(tmp_path):
    folder = tmp_path / "ä b"
    open_objects(folder.as_uri(), Settings()).put_bytes("k", b"x")

    assert open_objects(str(folder), Settings()).get("k") == b"x"
    assert open_objects(folder, Settings()).url("k") == str(folder / "k")


@pytest.mark.parametrize(
    ("kind", "url"),
    [
        ("moto", "s3://never-made/x"),
        ("gs", "gs://never-made/x"),
        pytest.param("radosgw", "s3://never-made/x", marks=pytest.mark.slow),
    ],
)
def test_a_missing_bucket_is_not_found(new_place, kind, url):
    missing = open_objects(url, new_place(kind).settings)
    with pytest.raises(NotFound):
        missing.put_bytes("k", b"x")
    with pytest.raises(NotFound):
        keys(missing)


@pytest.mark.slow
def test_a_wrong_secret_is_refused(new_place, monkeypatch):
    place = new_place("radosgw")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")

    with pytest.raises(
        Invalid, match=r"access is refused \((SignatureDoesNotMatch|AccessDenied)\)"
    ):
        place.open().put_bytes("k", b"x")


def test_missing_credentials_are_named(new_place, monkeypatch):
    place = new_place("moto")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    with pytest.raises(Invalid, match="credentials"):
        place.open().put_bytes("k", b"x")


# --- a world that fails ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["moto", "gs", pytest.param("radosgw", marks=pytest.mark.slow)])
@pytest.mark.parametrize("size", [10, LARGE])
def test_a_lost_answer_to_our_own_put_is_a_success(new_place, kind, size):
    place = new_place(kind)
    content = os.urandom(size)
    with FaultyNetwork(place.server) as network:
        store = place.through(network)
        keys(store)
        network.lose_answers = 1
        store.put_bytes("k", content, create_only=True)

    assert network.lose_answers == 0
    assert place.open().get("k") == content


@pytest.mark.parametrize("kind", ["moto", "gs", pytest.param("radosgw", marks=pytest.mark.slow)])
def test_a_lost_answer_does_not_hide_that_another_won(new_place, kind):
    place = new_place(kind)
    place.open().put_bytes("k", b"theirs", create_only=True)
    with FaultyNetwork(place.server) as network:
        network.lose_answers = 1
        with pytest.raises(ObjectExists):
            place.through(network).put_bytes("k", b"ours", create_only=True)


@pytest.mark.long
def test_cut_connections_are_tried_again(new_place):
    place = new_place("moto")
    content = os.urandom(LARGE)
    with FaultyNetwork(place.server) as network:
        network.cut_after_bytes, network.cuts = 1 << 20, 2
        place.through(network).put_bytes("k", content, create_only=True)

    assert network.cuts == 0
    assert place.open().get("k") == content


@pytest.mark.parametrize("kind", ["moto", "gs"])
@pytest.mark.parametrize("size", [100_000, LARGE])
def test_a_network_that_stays_broken_is_unavailable_and_leaves_nothing(
    new_place, kind, size, monkeypatch
):
    place = new_place(kind)
    _hurry(monkeypatch)
    with FaultyNetwork(place.server) as network:
        network.cut_after_bytes, network.cuts = 50_000, 10**6
        with pytest.raises(Unavailable):
            place.through(network).put_bytes("k", os.urandom(size), create_only=True)

    assert keys(place.open()) == []


@pytest.mark.parametrize("kind", ["moto", "gs"])
def test_a_silent_network_is_unavailable_in_bounded_time(new_place, kind, monkeypatch):
    place = new_place(kind)
    _hurry(monkeypatch)
    started = time.monotonic()
    with FaultyNetwork(place.server) as network:
        network.silent = True
        with pytest.raises(Unavailable):
            place.through(network).put_bytes("k", b"x")

    assert time.monotonic() - started < 120


@pytest.mark.usefixtures("s3_credentials")
def test_a_server_that_is_not_there_is_unavailable(monkeypatch):
    _hurry(monkeypatch)
    nowhere = "http://127.0.0.1:9"
    for url in ("s3://bucket/x", "gs://bucket/x"):
        store = open_objects(url, Settings(s3_endpoint=nowhere, gcs_endpoint=nowhere))
        with pytest.raises(Unavailable):
            store.get("k")


def _hurry(monkeypatch) -> None:
    from meterlake.stores.objects import gcs as ours
    from meterlake.stores.objects import s3

    monkeypatch.setattr(s3, "READ_TIMEOUT_S", 1)
    monkeypatch.setattr(s3, "ATTEMPTS", 2)
    retry = ours._RETRY.with_timeout(2.0).with_delay(initial=0.1, maximum=0.2)
    monkeypatch.setattr(ours, "_OPTIONS", {"timeout": (1, 1), "retry": retry})
