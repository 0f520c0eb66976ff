"""What was acknowledged outlives the machine that did: copies of segments in the object store."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meterlake.model.errors import Unavailable
from meterlake.pipeline.ingest.segments import LostSegments, ingest_segments
from tests.databases import NUMBERS
from tests.homes import a_home, open_home, wire_row

WAIT_S = 180
LOST_S = 60
# The steps that are its own.
OWN = ("segments.copied", "segments.ended", "segments.taken_over", "segments.copy_removed")


@pytest.fixture
def home(tmp_path, every_lake):
    """A home whose copies are where the files of its lakes are: in its folder, or in a bucket."""
    changes = {"segment_seconds": 3600, "segment_copies": "objects"}
    if every_lake != "folder":
        scheme = {"s3": "s3", "gcs": "gs"}[every_lake]
        changes["objects"] = f"{scheme}://lakes/copies-{next(NUMBERS)}"
    with a_home(tmp_path, **changes) as made:
        assert (made.stores.settings.objects is None) == (every_lake == "folder")
        yield made


class Machine:
    """The worker of another machine, which looks at the copies now and then."""

    def __init__(self, home):
        self.home = home
        self.seconds = 0.0
        self.lost = LostSegments(home.stores, lambda: self.seconds)

    def look(self, after: float = 0) -> int:
        self.seconds += after
        return self.lost.look()


def submit(home, *rows):
    lines = [json.dumps(row).encode() for row in rows]
    home.stores.segments.append(home.org_id, lines).result(WAIT_S)


def copies(home) -> list[str]:
    return [info.key for info in home.stores.objects.list("segments/")]


def lose_the_machine(home) -> None:
    """What it had on its disk is gone; its process is dead."""
    shutil.rmtree(home.organization.segment_folder.open.parent)


def uids(home) -> list[str]:
    return [uid for uid, *_ in home.uids()]


@pytest.mark.long
def test_a_batch_is_in_the_store_before_the_answer_and_goes_when_it_is_ingested(home):
    submit(home, wire_row("a"))
    submit(home, wire_row("b"), wire_row("c"))
    assert len(copies(home)) == 2

    home.stores.segments.close()
    ingest_segments(home.organization)

    assert uids(home) == ["a", "b", "c"]
    assert copies(home) == []


def test_without_the_setting_nothing_is_copied(tmp_path):
    with a_home(tmp_path, segment_seconds=3600) as home:
        submit(home, wire_row("a"))
        assert copies(home) == []
        assert Machine(home).look() == 0


def test_what_a_lost_machine_acknowledged_is_ingested_by_another_one(home):
    submit(home, wire_row("a"))
    submit(home, wire_row("b"), wire_row(None))
    lose_the_machine(home)
    other = Machine(home)

    assert [other.look(), other.look(LOST_S - 1)] == [0, 0]
    assert other.look(1) == 1
    [receipt] = ingest_segments(home.organization)

    assert receipt.accepted == 3
    assert copies(home) == []
    home.check()
    assert other.look(LOST_S) == 0


def test_what_is_damaged_in_the_store_holds_up_no_other_segment(home):
    submit(home, wire_row("a"))
    lose_the_machine(home)
    objects = home.stores.objects
    objects.put_bytes("segments/stray", b"not ours")
    objects.put_bytes("segments/0/0/00000001", b"no instant in front")
    other = Machine(home)
    other.look()

    with pytest.raises(Unavailable, match="segment 0"):
        other.look(LOST_S)
    assert [each.accepted for each in ingest_segments(home.organization)] == [1]
    assert uids(home) == ["a"]


def test_a_machine_that_still_writes_is_left_alone(home):
    other = Machine(home)
    submit(home, wire_row("a"))
    other.look()
    submit(home, wire_row("b"))

    assert [other.look(LOST_S), other.look(LOST_S - 1)] == [0, 0]


@pytest.mark.long
def test_a_machine_that_was_taken_over_acknowledges_nothing_more_of_that_segment(home):
    submit(home, wire_row("a"))
    other = Machine(home)
    other.look()
    assert other.look(LOST_S) == 1

    with pytest.raises(Unavailable, match="another machine took it over"):
        submit(home, wire_row("b"))
    submit(home, wire_row("b"))
    home.stores.segments.close()
    receipts = ingest_segments(home.organization)

    assert uids(home) == ["a", "b"]
    assert sum(each.repeats for each in receipts) >= 1
    home.check()


@pytest.mark.long
def test_one_more_part_that_comes_meanwhile_keeps_the_segment_where_it_is(home, monkeypatch):
    submit(home, wire_row("a"))
    [segment] = home.stores.segment_copies.segments()
    put = home.stores.objects.put_bytes

    def first_another_part(key, data, **more):
        monkeypatch.setattr(home.stores.objects, "put_bytes", put)
        submit(home, wire_row("b"))
        return put(key, data, **more)

    monkeypatch.setattr(home.stores.objects, "put_bytes", first_another_part)

    assert home.stores.segment_copies.take_over(segment) is None
    home.stores.segments.close()
    ingest_segments(home.organization)
    assert uids(home) == ["a", "b"]


def test_a_store_that_does_not_answer_is_no_success(home, monkeypatch):
    def fails(*_, **__):
        raise Unavailable("store", "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(home.stores.objects, "put_bytes", fails)
        with pytest.raises(Unavailable, match="no answer"):
            submit(home, wire_row("a"))
    submit(home, wire_row("a"))
    home.stores.segments.close()
    ingest_segments(home.organization)

    assert uids(home) == ["a"]
    assert copies(home) == []


def test_two_machines_that_take_over_the_same_segment_ingest_it_once(home):
    submit(home, wire_row("a"), wire_row(None))
    lose_the_machine(home)
    first, second = Machine(home), Machine(home)
    for machine in (first, second):
        machine.look()
    assert [first.look(LOST_S), second.look(LOST_S), second.look(LOST_S)] == [1, 0, 1]
    ingest_segments(home.organization)

    assert len(uids(home)) == 2
    home.check()


# Acknowledges two batches and dies there, or dies at the n-th step of that.
WRITER = """
def live(home):
    for name in ("a", "b"):
        line = json.dumps(wire_row(name)).encode()
        home.stores.segments.append(home.org_id, [line]).result(180)
        print(name, flush=True)
"""
# Takes over what the writer left, and ingests it.
TAKER = """
def live(home):
    seconds = iter((0.0, 60.0, 120.0))
    lost = LostSegments(home.stores, lambda: next(seconds))
    lost.look()
    lost.look()
    ingest_segments(home.organization)
"""
PROCESS = """
import json, os, sys
from meterlake.model.values import failpoint
from meterlake.pipeline.ingest.segments import LostSegments, ingest_segments
from tests.homes import open_home, wire_row
from tests.killing import die_at_nth
from pathlib import Path
{life}
reached = []
with open_home(
    Path(sys.argv[1]), sys.argv[2], segment_seconds=3600, segment_copies="objects"
) as home:
    dies = die_at_nth(int(sys.argv[3]) if sys.argv[3] else None)
    failpoint.hook = lambda name: (reached.append(name), dies(name))
    live(home)
    print(*reached, file=sys.stderr, flush=True)
    os._exit(0)
"""


def run(home: Path, org_id: str, life: str, step: int | None = None):
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-c", PROCESS.format(life=life)),
            *(str(home), org_id, "" if step is None else str(step)),
        ],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))},
        cwd=Path(__file__).parents[4],
        timeout=60,
    )
    assert done.returncode == (0 if step is None else -9), done.stderr
    return done.stdout.split(), done.stderr.split()


def survive(home, life: str, step: int, expected: set[str]) -> None:
    """One process dies at a step; the machine is lost, and another one goes on."""
    path, org_id = home.stores.home, home.org_id
    if life == WRITER:
        acknowledged, _ = run(path, org_id, WRITER, step)
        segments = home.stores.segment_folder(org_id).open.parent
        shutil.rmtree(segments, ignore_errors=True)
    else:
        acknowledged, _ = run(path, org_id, WRITER)
        lose_the_machine(home)
        run(path, org_id, TAKER, step)
    run(path, org_id, TAKER)
    with open_home(path, org_id, segment_copies="objects") as after:
        assert set(acknowledged) <= set(uids(after)) <= expected
        assert copies(after) == []
        after.check_rows()


def steps_of(folder: Path) -> dict[str, list[str]]:
    with a_home(folder, segment_copies="objects") as home:
        _, writer = run(home.stores.home, home.org_id, WRITER)
        lose_the_machine(home)
        _, taker = run(home.stores.home, home.org_id, TAKER)
    return {WRITER: writer, TAKER: taker}


@pytest.mark.slow
def test_whoever_dies_at_a_copy_nothing_acknowledged_is_lost(tmp_path):
    steps = steps_of(tmp_path)
    assert set(OWN) <= {*steps[WRITER], *steps[TAKER]}
    for life, names in steps.items():
        for name in set(OWN).intersection(names):
            with a_home(tmp_path, segment_copies="objects") as home:
                survive(home, life, names.index(name), {"a", "b"})


@pytest.mark.slow
def test_whoever_dies_at_any_step_nothing_acknowledged_is_lost(tmp_path):
    for life, names in steps_of(tmp_path).items():
        for step in range(len(names)):
            with a_home(tmp_path, segment_copies="objects") as home:
                survive(home, life, step, {"a", "b"})
