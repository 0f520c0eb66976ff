"""What a local folder promises as an object store: also after a kill, and on a full disk."""

import errno
import io
import itertools
import json
import os
import signal
import subprocess
import sys

import pytest

from meterlake.model.errors import Busy, Invalid, ObjectExists, Unavailable
from meterlake.settings import Settings
from meterlake.stores.objects import ObjectInfo, ObjectStore, local, open_objects

pytest_plugins = ["tests.doubles.fixtures"]


def keys(store: ObjectStore) -> list[str]:
    return [info.key for info in store.list()]


# Each step and each mode, but not each step in each mode.
QUICK = (("content", "create"), ("fsync", "replace"), ("name", "replace"), ("folder", "create"))
KILLED = """
import io, os, signal, sys
from pathlib import Path
from meterlake.settings import Settings
from meterlake.stores.objects import local, open_objects

def die(*_args, **_kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

step = sys.argv[2]
if step == "content":
    class Dying(io.BytesIO):
        def read(self, size=-1):
            return super().read(100) or die()
    local.shutil.copyfileobj = lambda source, target, _: (target.write(b"half"), target.flush(), die())
elif step == "fsync":
    local.os.fsync = die
elif step == "name":
    local.os.link = die
    local.Path.replace = die
elif step == "unlink":
    local.Path.unlink = die
elif step == "folder":
    real = local._sync_folder
    local._sync_folder = lambda folder: die() if folder.name == "a" else real(folder)
open_objects(sys.argv[1], Settings()).put_bytes("a/k", b"whole", create_only=sys.argv[3] == "create")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "mode"),
    [
        *QUICK,
        ("unlink", "create"),  # nothing is unlinked when a put replaces
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in itertools.product(
                ("content", "fsync", "name", "folder"), ("create", "replace")
            )
            if each not in QUICK
        ),
    ],
)
def test_a_killed_put_leaves_all_or_nothing(tmp_path, step, mode):
    command = [sys.executable, "-c", KILLED, str(tmp_path), step, mode]
    killed = subprocess.run(command, check=False)
    store = open_objects(tmp_path, Settings())

    assert killed.returncode == -signal.SIGKILL
    assert keys(store) in ([], ["a/k"])
    if keys(store):
        assert store.get("a/k") == b"whole"
    store.put_bytes("a/k", b"whole", create_only=True)
    store.put_bytes("a/k", b"other", create_only=False)
    assert store.get("a/k") == b"other"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["k"]


def test_a_file_that_is_being_written_is_not_listed(tmp_path):
    store = open_objects(tmp_path, Settings())
    store.put_bytes("k", b"old")
    seen = []

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            seen.append((keys(store), store.get("k")))
            return super().read(size)

    store._put_object(_info("k", b"new"), Slow(b"new"), create_only=False)

    assert set(map(str, seen)) == {"(['k'], b'old')"}
    assert store.get("k") == b"new"


def test_a_put_waits_for_another_one_of_the_same_key(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "LOCK_TIMEOUT_S", 0.05)
    store = open_objects(tmp_path, Settings())
    with local._temporary_beside(tmp_path / "k", 0), pytest.raises(Busy):
        store.put_bytes("k", b"x")
    store.put_bytes("k", b"x")


def test_what_a_killed_put_left_is_thrown_away(tmp_path):
    store = open_objects(tmp_path, Settings())
    store.put_bytes("a/linked", b"whole")
    os.link(tmp_path / "a" / "linked", local._temporary_name(tmp_path / "a" / "linked"))
    local._temporary_name(tmp_path / "a" / "half").write_bytes(b"ha")
    local._temporary_name(tmp_path / "a" / "others").write_bytes(b"of others")

    assert store.abort_uploads(["a/linked", "a/half", "a/none", "nowhere/k"]) == 2
    assert store.abort_uploads(["a/linked", "a/half"]) == 0
    left = {path.name for path in (tmp_path / "a").iterdir()}
    assert left == {"linked", local._temporary_name(tmp_path / "others").name}
    assert store.get("a/linked") == b"whole"


def test_what_another_process_is_putting_is_not_thrown_away(tmp_path):
    store = open_objects(tmp_path, Settings())
    with local._temporary_beside(tmp_path / "k", 0) as (temporary, _):
        assert store.abort_uploads(["k"]) == 0
        assert temporary.exists()


def test_what_is_there_already_is_made_to_stay(tmp_path, monkeypatch):
    store = open_objects(tmp_path / "root", Settings())
    (tmp_path / "file").write_bytes(b"whole")
    store.put_file("a/b/k", tmp_path / "file", create_only=True)
    synced, sync = [], local._sync_folder
    monkeypatch.setattr(local, "_sync_folder", lambda path: (synced.append(path), sync(path)))
    store.put_file("a/b/k", tmp_path / "file", create_only=True, look_first=True)

    root = tmp_path / "root"
    assert synced == [root / "a" / "b", root / "a", root]


def test_who_was_killed_with_both_names_keeps_nobody_waiting(tmp_path):
    store = open_objects(tmp_path, Settings())
    store.put_bytes("k", b"whole")
    os.link(tmp_path / "k", local._temporary_name(tmp_path / "k"))

    with store.writing("k") as writing:
        writing.write(b"other")
        with pytest.raises(ObjectExists):
            writing.finish()
    assert [path.name for path in tmp_path.iterdir()] == ["k"]
    assert store.get("k") == b"whole"


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, Unavailable), (errno.EIO, Unavailable), (errno.EROFS, Invalid)],
)
def test_a_failing_disk_leaves_nothing(tmp_path, monkeypatch, number, expected):
    store = open_objects(tmp_path, Settings())
    store.put_bytes("other", b"")

    def fail(_descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(local.os, "fsync", fail)
        with pytest.raises(expected):
            store.put_bytes("k", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_file_in_the_way_of_a_folder_is_named(tmp_path):
    store = open_objects(tmp_path, Settings())
    store.put_bytes("a", b"")

    with pytest.raises(Invalid, match="a part of the path is a file"):
        store.put_bytes("a/b", b"")


@pytest.mark.long
def test_heavy_libraries_are_imported_only_when_they_are_needed():
    code = (
        "import sys, json; from meterlake.stores.objects import open_objects;"
        "from meterlake.settings import Settings; open_objects('x', Settings());"
        "print(json.dumps([m for m in ('boto3', 'botocore', 'google.cloud.storage', 'requests') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert json.loads(done.stdout) == []


def _info(key: str, data: bytes) -> ObjectInfo:
    return ObjectInfo(key, len(data), "")
