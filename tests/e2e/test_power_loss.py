"""What a loss of power must not take: everything is synced before somebody hears that it is safe.

The system calls of a process that ingests, submits and maintains are traced. A name in a folder
is safe when the folder was synced after it, a file when it was synced after its last change.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from tests.homes import HEADER, csv_row, new_home, open_home

CALLS = (
    "write,pwrite64,writev,pwritev,ftruncate,fsync,fdatasync,"
    "rename,renameat,renameat2,openat,mkdir,mkdirat,unlink,unlinkat"
)
# Says on its way what somebody could rely on from there on.
CHILD = """
import os, sys
from datetime import timedelta
from pathlib import Path
from tests.homes import open_home

verb = sys.argv[3]
with open_home(Path(sys.argv[1]), sys.argv[2]) as home:
    if verb == "ingest":
        home.work()
    elif verb == "maintain":
        from meterlake.pipeline.maintenance.maintain import maintain
        maintain(home.organization, kept_for=timedelta(hours=1))
    elif verb in ("apply", "revert"):
        from meterlake.pipeline import backfill
        getattr(backfill, verb)(home.organization, "b", "ann")
    else:
        text = b'{"meter":"egress","account":"acme","ts":"2026-09-03T10:00:00Z"}'
        home.stores.segments.append(home.org_id, [text]).result(180)
    os.write(1, b"acknowledged\\n")
    os._exit(0)
"""

_CALL = re.compile(r"^\d+ +(\w+)\((.*)\) += (-?\d+)")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_FD = re.compile(r"^(?:\d+|AT_FDCWD)<([^>]*)>")
_NAMES = re.compile(r'"([^"]*)"')


@dataclass
class Disk:
    """What would be there after a loss of power, as far as the trace tells."""

    unsynced: set[str] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)

    def see(self, call: str, arguments: str) -> None:
        """Follow one system call that succeeded."""
        at = _FD.match(arguments)
        names = _NAMES.findall(arguments)
        if call in {"write", "pwrite64", "writev", "pwritev", "ftruncate"} and at:
            self.unsynced.add(at[1])
        elif call in {"fsync", "fdatasync"} and at:
            self.unsynced.discard(at[1])
            self.unnamed = {name for name in self.unnamed if str(Path(name).parent) != at[1]}
        elif call.startswith("rename") and len(names) == 2:
            self._rename(*names)
        elif (call == "openat" and "O_CREAT" in arguments) or call.startswith("mkdir"):
            self.unnamed.add(names[0].rstrip("/"))
        elif call.startswith("unlink"):
            self.unsynced.discard(names[0])
            self.unnamed.discard(names[0])

    def _rename(self, old: str, new: str) -> None:
        for names in (self.unsynced, self.unnamed):
            for name in [each for each in names if each == old or each.startswith(f"{old}/")]:
                names.remove(name)
                names.add(new + name[len(old) :])
        self.unnamed.add(new)

    def lost(self, below: Path, pattern: str) -> set[str]:
        """Files and folders that could be gone or torn."""
        return {
            name
            for name in self.unsynced | self.unnamed
            if Path(name).is_relative_to(below) and re.search(pattern, name)
        }


def traced(place: tuple[Path, str], verb: str, tmp_path: Path) -> list[tuple[str, str]]:
    """The system calls of a process that does something, in the order in which they ended."""
    log = tmp_path / f"{verb}.trace"
    command = ["strace", "-f", "-y", "-s", "32", "-e", f"trace={CALLS}", "-o", str(log)]
    child = [sys.executable, "-W", "ignore", "-c", CHILD, str(place[0]), place[1], verb]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([*command, *child], env=env, capture_output=True, check=False)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("processes may not be traced here")
    assert done.returncode == 0, done.stderr.decode()
    return list(_calls(log.read_text(errors="replace")))


def _calls(trace: str):
    waiting: dict[tuple[str, str], str] = {}
    for line in trace.splitlines():
        if line.endswith("<unfinished ...>"):
            process, _, rest = line.partition(" ")
            waiting[process, rest.strip().partition("(")[0]] = line.removesuffix("<unfinished ...>")
            continue
        resumed = _RESUMED.match(line)
        whole = waiting.pop((resumed[1], resumed[2]), "") + resumed[3] if resumed else line
        call = _CALL.match(whole)
        if call and int(call[3]) >= 0:
            yield call[1], call[2]


def after_each(calls, moment) -> list[Disk]:
    """The disk at each call of a kind."""
    disk, found = Disk(), []
    for call, arguments in calls:
        if moment(call, arguments):
            found.append(Disk(set(disk.unsynced), set(disk.unnamed)))
        disk.see(call, arguments)
    return found


def acknowledges(call: str, arguments: str) -> bool:
    return call == "write" and "acknowledged" in arguments


def commits(call: str, arguments: str) -> bool:
    """The catalog's log is synced: what it names is in the lake."""
    return call in {"fsync", "fdatasync"} and "catalog.sqlite-wal" in arguments


@pytest.fixture
def place(tmp_path):
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    home = tmp_path / "home"
    org_id = new_home(home)
    with open_home(home, org_id) as opened:
        # A table that exists, and small files to merge.
        for name in "ab":
            rows = "".join(csv_row(f"{name}{n}") for n in range(3))
            opened.ingest(f"{name}.csv", HEADER + rows)
    return home, org_id


def staged(place: tuple[Path, str], *, applied: bool) -> None:
    """A backfill that deletes so many rows, or brings so many back, that DuckLake writes files."""
    with open_home(*place) as home:
        rows = "".join(csv_row(f"c{n}") for n in range(3000))
        home.ingest("c.csv", HEADER + rows)
        uids = tuple(f"c{n}" for n in range(0, 3000, 2))
        wanted = BackfillSpec(Mode.RETRACT, "wrong", uids=uids)
        backfill.start(home.organization, Order(wanted, "ann", "b"))
        if applied:
            backfill.apply(home.organization, "b", "ann")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["ingest", "maintain", "apply", "revert"])
def test_data_files_are_safe_before_the_catalog_speaks_of_them(place, tmp_path, verb):
    if verb == "ingest":
        inbox = place[0] / "drop" / "sample" / "inbox"
        rows = "".join(csv_row(f"c{n}") for n in range(2000)) + csv_row("x", "NaN")
        (inbox / "c.csv").write_text(HEADER + rows)
    if verb in {"apply", "revert"}:
        staged(place, applied=verb == "revert")
    lake = place[0] / "lakes" / place[1]
    known = set((lake / "data").rglob("*.parquet"))
    calls = traced(place, verb, tmp_path)

    new = {str(path) for path in (lake / "data").rglob("*.parquet")} - set(map(str, known))
    assert new, "nothing was written"
    moments = after_each(calls, commits)
    assert moments
    # From the first sync of the log on, a commit may speak of any file that has its final name.
    for disk in moments:
        assert not disk.lost(lake / "data", r"\.parquet$") & new
    [end] = after_each(calls, acknowledges)
    # DuckLake makes folders for tables that it writes nothing for: they may go.
    needed = new | {str(folder) for path in map(Path, new) for folder in path.parents}
    assert not end.lost(lake / "data", ".") & needed
    assert not [name for name in end.unsynced if name.endswith("/catalog.sqlite-wal")]
    assert end.lost(place[0] / "drop", r"/(done|failed)/") == set()


@pytest.mark.slow
def test_a_batch_is_safe_before_its_answer(place, tmp_path):
    calls = traced(place, "submit", tmp_path)

    [end] = after_each(calls, acknowledges)
    segments = place[0] / "lakes" / place[1] / "segments"
    assert list((segments / "open").iterdir())
    assert end.lost(segments, ".") == set()
    synced = [arguments for call, arguments in calls if call in {"fsync", "fdatasync"}]
    assert any(".ndjson>" in arguments for arguments in synced)
