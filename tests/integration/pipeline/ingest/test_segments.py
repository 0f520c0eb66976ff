"""From closed segments into the lake, exactly once, whoever dies when."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from filelock import FileLock

from meterlake.model.errors import Busy
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.worker.rounds import SEGMENTS
from tests.homes import a_home, wire_row
from tests.rounds import go_round

WAIT_S = 180


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path, segment_seconds=3600) as made:
        yield made


def submit(home, *rows):
    lines = [json.dumps(row).encode() for row in rows]
    home.stores.segments.append(home.org_id, lines).result(WAIT_S)


def close(home):
    """Close the open segment as the end of a process does; another one is opened after it."""
    home.stores.segments.close()
    home.stores.segments = type(home.stores.segments)(
        home.stores.lake_folder, home.stores.settings, home.stores.now
    )


def uids(home):
    return [uid for uid, *_ in home.uids()]


def test_there_is_nothing_to_do_where_nothing_was_submitted(home):
    assert ingest_segments(home.organization) == []


def test_rows_are_counted_without_the_empty_lines_and_numbered_with_them(home):
    submit(home, wire_row("a"), wire_row("b"))
    submit(home, wire_row("c"), wire_row("d", gb="no number"))
    submit(home, wire_row("e"))
    close(home)
    [receipt] = ingest_segments(home.organization)

    assert (receipt.received, receipt.accepted, receipt.rejected) == (5, 4, 1)
    assert [row.row for row in receipt.sample] == [5]
    assert sorted(row for *_, row, _ in home.measurements(of_source=True)) == [1, 2, 4, 7]
    home.check()


def test_the_same_measurement_without_a_uid_counts_each_time_it_is_submitted(home):
    for _ in range(2):
        submit(home, wire_row(None))
        close(home)
    receipts = ingest_segments(home.organization)

    assert [each.accepted for each in receipts] == [1, 1]
    home.check()


@pytest.mark.long
def test_segments_are_ingested_in_order_and_kept(home):
    for gb in ("1", "2"):
        submit(home, wire_row("same", gb=int(gb)))
        close(home)
        home.clock.advance(seconds=1)
    folder = home.organization.segment_folder
    names = [path.name for path in folder.waiting()]
    receipts = ingest_segments(home.organization)

    assert [each.accepted for each in receipts] == [1, 0]
    assert [each.delivery.name for each in receipts] == sorted(names)
    assert [path.name for path in sorted(folder.lake.glob("sources/*/*"))] == sorted(names)
    assert folder.waiting() == []
    assert ingest_segments(home.organization) == []


def test_only_one_process_ingests_them(home):
    submit(home, wire_row("a"))
    close(home)
    with FileLock(home.organization.segment_folder.lock), pytest.raises(Busy):
        ingest_segments(home.organization)

    assert len(ingest_segments(home.organization)) == 1


def test_the_worker_ingests_until_it_is_stopped(home):
    submit(home, wire_row("a"))
    close(home)
    folder, stopped = home.organization.segment_folder, threading.Event()

    def stop():
        if not folder.waiting() and list(folder.lake.glob("sources/*/*")):
            stopped.set()
        return stopped.is_set()

    go_round(SEGMENTS, home.stores, stop, every=0.01)

    assert uids(home) == ["a"]


# Dies at the n-th step of closing what a dead process left, of ingesting it, and of keeping it.
CRASHING = """
import os, sys
from meterlake.model.values import failpoint
from meterlake.pipeline.ingest.segments import ingest_segments
from tests.homes import open_home
from tests.killing import die_at_nth
from pathlib import Path

with open_home(Path(sys.argv[1]), sys.argv[2]) as home:
    failpoint.hook = die_at_nth(int(sys.argv[3]))
    ingest_segments(home.organization)
os._exit(0)
"""


def die_at(home, step):
    command = [sys.executable, "-W", "ignore", "-c", CRASHING]
    done = subprocess.run(
        [*command, str(home.stores.home), home.org_id, str(step)],
        check=False,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": ""},
        cwd=Path(__file__).parents[4],
        timeout=60,
    )
    assert done.returncode in (0, -9), done.stderr.decode()
    return done.returncode == -9


@pytest.mark.slow
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.slow), 20])
def test_whoever_dies_while_ingesting_loses_nothing_and_doubles_nothing(home, stride):
    """At every step, or at one of every eight."""
    folder = home.organization.segment_folder
    step, expected, died = 0, [], True
    while died:
        # One without a uid tells whether it came in twice; the torn one was never acknowledged.
        rows = [wire_row(f"step-{step:02}"), wire_row(None, account="new")]
        torn = json.dumps(wire_row("torn"))[:-5]
        folder.open.mkdir(parents=True, exist_ok=True)
        text = "\n".join(map(json.dumps, rows)) + "\n\n" + torn
        (folder.open / f"dead-{step:08}.ndjson").write_text(text)
        expected.append(rows[0]["uid"])
        died = die_at(home, step)
        ingest_segments(home.organization)
        home.check()
        found = uids(home)
        assert [uid for uid in found if uid.startswith("step")] == expected, step
        assert len(found) == 2 * len(expected), step
        assert len(list(folder.lake.glob("sources/*/*"))) == len(expected), step
        step += stride

    assert step > 12
