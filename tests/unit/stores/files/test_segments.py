"""Segments: what is acknowledged is on the disk, whoever dies when."""

import json
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from meterlake.model.errors import Unavailable
from meterlake.model.values import failpoint
from meterlake.stores.files import segments as module
from meterlake.stores.files.segments import (
    SegmentFolder,
    Segments,
    received_at,
    recover,
    whole_bytes,
)
from tests.homes import settings

ORG = "org"
WAIT_S = 180
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)


def opened(folder, **changes):
    options = settings(folder, **{"segment_seconds": 3600, **changes})
    return Segments(lambda org_id: folder / org_id, options, lambda: NOW)


@pytest.fixture
def folder(tmp_path):
    return SegmentFolder(tmp_path / ORG)


@pytest.fixture
def segments(tmp_path):
    made = opened(tmp_path)
    yield made
    made.close()


def put(segments, *lines):
    segments.append(ORG, [line.encode() for line in lines]).result(WAIT_S)


def contents(folder):
    return [path.read_bytes() for path in folder.waiting()]


def test_each_batch_is_closed_by_an_empty_line(segments, folder):
    put(segments, '{"a":1}', '{"a":2}')
    put(segments, '{"a":3}')
    [path] = folder.open.iterdir()

    assert path.read_bytes() == b'{"a":1}\n{"a":2}\n\n{"a":3}\n\n'
    assert folder.waiting() == []


def test_closing_gives_a_segment_its_name_and_its_instant(segments, folder):
    put(segments, "{}")
    segments.close()
    [path] = folder.waiting()

    assert list(folder.open.iterdir()) == []
    assert received_at(path) == NOW
    assert path.name.startswith("20261001T120000.000000Z-")
    assert folder.kept_path(path) == folder.lake / "sources" / "2026-10-01" / path.name


def test_nothing_can_be_appended_after_the_end(segments):
    segments.close()

    with pytest.raises(Unavailable, match="stops"):
        segments.append(ORG, [b"{}"])


def test_a_segment_is_closed_by_its_size_and_the_next_one_has_another_name(tmp_path, folder):
    segments = opened(tmp_path, segment_bytes=4)
    for line in ("{}", "[1]", "{}"):
        put(segments, line)
    segments.close()

    assert contents(folder) == [b"{}\n\n", b"[1]\n\n", b"{}\n\n"]


def test_a_segment_is_closed_by_its_age(tmp_path, folder):
    segments = opened(tmp_path, segment_seconds=0.05)
    put(segments, "{}")
    for _ in range(100):
        if folder.waiting():
            break
        threading.Event().wait(0.05)

    assert contents(folder) == [b"{}\n\n"]
    segments.close()


def test_batches_that_come_during_a_sync_share_the_next_one_in_their_order(
    segments, folder, monkeypatch
):
    put(segments, "0")
    synced, writing, go_on = [], threading.Event(), threading.Event()

    def hook(name):
        if name == "segments.written":
            writing.set()
            assert go_on.wait(WAIT_S)
        if name == "segments.synced":
            synced.append(name)

    monkeypatch.setattr(failpoint, "hook", hook)
    first = segments.append(ORG, [b"1"])
    assert writing.wait(WAIT_S)
    others = [segments.append(ORG, [b"%d" % number]) for number in range(2, 50)]
    assert not any(future.done() for future in (first, *others))
    go_on.set()
    for future in (first, *others):
        future.result(WAIT_S)

    assert len(synced) == 2
    [path] = folder.open.iterdir()
    assert path.read_bytes() == b"".join(b"%d\n\n" % number for number in range(50))


def test_organizations_have_files_of_their_own(tmp_path, segments):
    put(segments, "1")
    segments.append("other", [b"2"]).result(WAIT_S)
    segments.close()

    assert contents(SegmentFolder(tmp_path / ORG)) == [b"1\n\n"]
    assert contents(SegmentFolder(tmp_path / "other")) == [b"2\n\n"]


def test_two_processes_do_not_share_an_open_segment_and_nobody_recovers_it(
    tmp_path, segments, folder
):
    other = opened(tmp_path)
    put(segments, "1")
    put(other, "2")
    recover(folder)
    put(segments, "3")

    assert len(list(folder.open.iterdir())) == 2
    other.close()
    segments.close()
    assert sorted(contents(folder)) == [b"1\n\n3\n\n", b"2\n\n"]


def test_what_a_full_disk_refuses_is_not_stored_and_the_next_batch_is(
    segments, folder, monkeypatch
):
    put(segments, "1")

    def full(name):
        if name == "segments.written":
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(failpoint, "hook", full)
    with pytest.raises(Unavailable, match="No space left"):
        put(segments, "2")
    monkeypatch.setattr(failpoint, "hook", None)
    put(segments, "3")
    recover(folder)
    segments.close()

    assert sorted(contents(folder)) == [b"1\n\n", b"3\n\n"]


def test_a_segment_that_cannot_be_closed_is_recovered_and_others_go_on(
    tmp_path, folder, monkeypatch
):
    segments = opened(tmp_path, segment_bytes=1)
    monkeypatch.setattr(failpoint, "hook", lambda name: 1 // (name != "segments.closing"))
    put(segments, "1")
    put(segments, "2")
    segments.close()
    assert contents(folder) == []
    monkeypatch.setattr(failpoint, "hook", None)
    recover(folder)

    assert sorted(contents(folder)) == [b"1\n\n", b"2\n\n"]


def test_a_backlog_counts_the_bytes_that_are_closed(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(module, "_COUNTED_S", 0)
    segments = opened(tmp_path, segment_bytes=1, segment_backlog=8)
    full = [segments.full(ORG)]
    for _ in range(3):
        put(segments, "{}")
        while len(folder.waiting()) < len(full):
            threading.Event().wait(0.01)
        full.append(segments.full(ORG))

    assert full == [False, False, False, True]
    folder.waiting()[0].unlink()
    assert not segments.full(ORG)
    segments.close()


def test_a_backlog_counts_what_is_still_open_whoever_opened_it(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_COUNTED_S", 0)
    segments, others = (opened(tmp_path, segment_seconds=3600, segment_backlog=8) for _ in range(2))
    full = []
    for each in (segments, others, segments):
        full.append(segments.full(ORG))
        put(each, "{}")

    assert full == [False, False, False]
    assert segments.full(ORG)
    assert others.full(ORG)
    for each in (segments, others):
        each.close()


def test_what_a_process_takes_in_itself_counts_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_COUNTED_S", 3600)
    segments = opened(tmp_path, segment_backlog=8)
    full = []
    for _ in range(4):
        full.append(segments.full(ORG))
        put(segments, "{}")
    segments.close()

    assert full == [False, False, False, True]
    assert not segments.full("another")


def left_open(folder, data):
    folder.open.mkdir(parents=True, exist_ok=True)
    path = folder.open / "dead-00000001.ndjson"
    path.write_bytes(data)
    return path


def test_a_torn_tail_is_cut_wherever_it_was_torn(folder):
    batches = ['{"a":"é"}\n{"b":2}\n\n', '{"c":3}\n\n', '{"d":"ü"}\n{"e":5}\n\n']
    whole = "".join(batches).encode()
    ends = [len("".join(batches[:count]).encode()) for count in range(len(batches) + 1)]
    for torn in range(len(whole) + 1):
        left_open(folder, whole[:torn])
        recover(folder)
        expected = whole[: max(end for end in ends if end <= torn)]
        assert b"".join(contents(folder)) == expected, torn
        assert list(folder.open.iterdir()) == []
        for path in folder.waiting():
            path.unlink()


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        (b"1\n\n\x00\x00\x00\n\n2\n\n", b"1\n\n"),
        (b"1\n\n\xc3\x00\n\n", b"1\n\n"),
        (b"1\n\n\xc3\n\n2\n\n", b"1\n\n"),
        (b"\x00" * 50, b""),
        (b"1\n", b""),
    ],
)
def test_nothing_counts_from_where_the_disk_lost_it(data, kept):
    assert data[: whole_bytes(data)] == kept


def test_a_recovered_segment_was_received_when_it_was_last_written(folder):
    path = left_open(folder, b"1\n\n2")
    written = path.stat().st_mtime
    recover(folder)
    [closed] = folder.waiting()

    assert received_at(closed).timestamp() == pytest.approx(written, abs=1e-5)


def test_recovering_where_nothing_was_ever_open_does_nothing(folder):
    recover(folder)

    assert not folder.lake.exists()


# One process that forks those that die: at each step of appending, and of each recovery after it.
CRASHING = """
import json, os, signal, sys
from pathlib import Path
from meterlake.model.values import failpoint
from tests.killing import die_at_nth
from meterlake.stores.files.segments import SegmentFolder, recover
from tests.unit.stores.files.test_segments import opened, ORG

def child(crash_at, work):
    pid = os.fork()
    if pid == 0:
        failpoint.hook = die_at_nth(crash_at)
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False

def submit(home):
    log = os.open(home / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    segments = opened(home, segment_bytes=40)
    for number in range(6):
        segments.append(ORG, [b'{"uid":"%d"}' % number] * 2).result(180)
        os.write(log, b"%d\\n" % number)
    segments.close()

def stored(home):
    folder = SegmentFolder(home / ORG)
    assert list(folder.open.iterdir()) == []
    lines = b"".join(path.read_bytes() for path in folder.waiting()).splitlines()
    return [json.loads(line)["uid"] for line in lines if line]

root, first, found = Path(sys.argv[1]), 0, []
died = True
while died:
    second, again = 0, True
    while again:
        home = root / f"{first}-{second}"
        home.mkdir()
        died = child(first, lambda: submit(home))
        folder = SegmentFolder(home / ORG)
        if not folder.open.exists():
            folder.open.mkdir(parents=True)
        again = child(second, lambda: recover(folder))
        recover(folder)
        log = home / "log"
        acknowledged = log.read_text().split() if log.exists() else []
        found.append([first, second, acknowledged, stored(home)])
        second += 1
    first += 1
print(json.dumps(found))
"""


@pytest.mark.slow
def test_whoever_dies_at_any_step_loses_nothing_acknowledged_and_doubles_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CRASHING, str(tmp_path)],
        check=False,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": ""},
        cwd=Path(__file__).parents[4],
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode()
    outcomes = json.loads(done.stdout)

    assert len({first for first, *_ in outcomes}) > 20
    for first, second, acknowledged, stored in outcomes:
        where = first, second
        once = stored[::2]
        assert stored[1::2] == once, where
        assert len(once) == len(set(once)), where
        assert once[: len(acknowledged)] == acknowledged, where
        assert len(once) <= len(acknowledged) + 1, where
    assert outcomes[-1][2] == [str(number) for number in range(6)]
