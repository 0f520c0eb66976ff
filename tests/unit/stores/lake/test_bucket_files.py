"""Staged files on their way to a bucket."""

import time
from contextlib import closing, suppress
from threading import Barrier, Event

import duckdb
import pytest

from meterlake.model.errors import Unavailable
from meterlake.stores.lake.backends import bucket_files
from meterlake.stores.lake.backends.bucket_files import BucketFiles, GcsFiles
from meterlake.stores.lake.backends.data_files import FolderFiles
from meterlake.stores.objects.base import Refused
from meterlake.stores.objects.gcs import GcsObjects
from meterlake.stores.objects.local import LocalObjects

WAIT_S = 180


class Slow(LocalObjects):
    """Objects that are put only while another one is put, too."""

    def __init__(self, folder, parties=2, broken=()):
        super().__init__(folder)
        self.barrier, self.broken = Barrier(parties), broken

    def put_file(self, key, path, **options):
        self.barrier.wait(WAIT_S)
        if key in self.broken:
            raise Unavailable("bucket", "cut off")
        return super().put_file(key, path, **options)


@pytest.fixture
def staged(tmp_path):
    names = [f"{number}.parquet" for number in range(4)]
    for name in names:
        (tmp_path / name).write_text(name)
    return [(tmp_path / name, f"main/{name}") for name in names]


def test_files_go_up_at_the_same_time_and_come_in_their_order(tmp_path, staged):
    files = BucketFiles(Slow(tmp_path / "bucket", parties=4))

    assert list(files.store_all(staged)) == [path for path, _ in staged]
    assert files.names() == {name for _, name in staged}


def test_whoever_asks_sees_none_after_one_that_failed(tmp_path, staged):
    files = BucketFiles(Slow(tmp_path / "bucket", parties=1, broken=["main/1.parquet"]))
    with closing(files.store_all(staged)) as stored:
        assert next(stored) == staged[0][0]
        with pytest.raises(Unavailable, match="cut off"):
            next(stored)


def test_nothing_is_done_without_files(tmp_path):
    assert list(BucketFiles(LocalObjects(tmp_path / "bucket")).store_all([])) == []


class Counted(LocalObjects):
    """Objects that note what is put, and when somebody waits for it."""

    def __init__(self, folder, broken=()):
        super().__init__(folder)
        self.put, self.broken, self.go_on = [], broken, Event()

    def put_file(self, key, path, **options):
        assert self.go_on.wait(WAIT_S)
        self.put.append(key)
        if key in self.broken:
            raise Unavailable("bucket", "cut off")
        return super().put_file(key, path, **options)


def send_all(send, staged):
    for path, name in staged:
        send(path, name)


def test_what_was_sent_before_is_stored_without_being_sent_again(tmp_path, staged):
    objects = Counted(tmp_path / "bucket")
    files = BucketFiles(objects)
    with files.sending() as send:
        send_all(send, staged)
        objects.go_on.set()
        assert list(files.store_all(staged)) == [path for path, _ in staged]

    assert sorted(objects.put) == [name for _, name in staged]
    assert files.names() == set(objects.put)


def test_what_was_sent_and_is_not_stored_is_removed(tmp_path, staged):
    objects = Counted(tmp_path / "bucket")
    files = BucketFiles(objects)
    objects.go_on.set()
    with files.sending() as send:
        send_all(send, staged[:3])
        [path] = files.store_all([(staged[0][0], "main/other.parquet")])
        assert list(files.store_all(staged[2:])) == [path for path, _ in staged[2:]]

    assert path == staged[0][0]
    assert files.names() == {"main/other.parquet", "main/2.parquet", "main/3.parquet"}


def test_what_was_stored_stays_however_the_body_ends(tmp_path, staged):
    """The commit may be there although its answer was lost."""
    objects = Counted(tmp_path / "bucket")
    files = BucketFiles(objects)
    objects.go_on.set()
    with suppress(Unavailable), files.sending() as send:
        send_all(send, staged)
        list(files.store_all(staged[:2]))
        raise Unavailable("catalog", "its answer was lost")

    assert files.names() == {"main/0.parquet", "main/1.parquet"}


def test_what_could_not_be_sent_fails_where_it_is_stored(tmp_path, staged):
    objects = Counted(tmp_path / "bucket", broken=["main/0.parquet"])
    files = BucketFiles(objects)
    objects.go_on.set()
    with files.sending() as send:
        send_all(send, staged)
        with pytest.raises(Unavailable, match="cut off"):
            list(files.store_all(staged))

    assert files.names() == set()


def test_what_could_not_be_sent_for_a_while_is_sent_again_where_it_is_stored(tmp_path, staged):
    """A bucket that was away while a long source was read does not cost the reading."""
    objects = Counted(tmp_path / "bucket", broken=["main/0.parquet"])
    files = BucketFiles(objects)
    objects.go_on.set()
    with files.sending() as send:
        send_all(send, staged[:2])
        while files.names() != {"main/1.parquet"}:
            time.sleep(0.01)
        objects.broken = ()
        assert list(files.store_all(staged[:2])) == [path for path, _ in staged[:2]]

    assert sorted(objects.put) == ["main/0.parquet", "main/0.parquet", "main/1.parquet"]
    assert files.names() == {"main/0.parquet", "main/1.parquet"}


def test_a_bucket_that_is_gone_is_not_asked_to_remove_each_file(tmp_path, staged):
    """Each question takes as long as the network is waited for."""
    asked = []

    class Gone(LocalObjects):
        def delete(self, key):
            asked.append(key)
            raise Unavailable("bucket", "cut off")

    files = BucketFiles(Gone(tmp_path / "bucket"))
    with files.sending() as send:
        send_all(send, staged)
        while len(files.names()) < len(staged):
            time.sleep(0.01)

    assert len(asked) == 1


def test_what_waited_for_its_commit_for_long_is_sent_again(tmp_path, staged, monkeypatch):
    """Upkeep may have removed it meanwhile: nobody had registered it."""
    monkeypatch.setattr(bucket_files, "_SENT_FOR_S", 0.0)
    objects = Counted(tmp_path / "bucket")
    files = BucketFiles(objects)
    objects.go_on.set()
    with files.sending() as send:
        send_all(send, staged[:1])
        while files.names() != {"main/0.parquet"}:
            time.sleep(0.01)
        objects.delete("main/0.parquet")
        list(files.store_all(staged[:1]))

    assert objects.put == ["main/0.parquet"] * 2
    assert files.names() == {"main/0.parquet"}


def test_a_folder_takes_files_only_when_they_are_stored(tmp_path):
    with FolderFiles(tmp_path / "lake").sending() as send:
        assert send is None


@pytest.mark.long
def test_whom_google_does_not_know_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    files = GcsFiles(GcsObjects("usage", "lakes", None))

    with duckdb.connect() as connection, pytest.raises(Refused, match=r"gs://usage/lakes.*absent"):
        files.prepare(connection)
