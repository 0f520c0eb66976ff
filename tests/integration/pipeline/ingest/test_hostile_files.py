"""Whatever a file is, its ingest takes at most 1 GiB more than the process has, and it has an end."""

import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from meterlake.model.errors import Busy
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.pipeline.ingest.reader_crashes import counting_deaths
from meterlake.pipeline.ingest.run import ingest_file
from tests.homes import HEADER, a_home, csv_row, new_home, open_home
from tests.hostile_files import LABORIOUS, LARGE, MODEST, SMALL

# The address space is limited, not what is resident: an allocation that nobody touches counts, too.
PROGRAM = """
import resource, sys
from pathlib import Path
from uuid import uuid4
from meterlake.model.measurements.receipt import Delivery
from meterlake.pipeline.ingest.run import ingest_file
from tests.homes import HEADER, csv_row, open_home

home, org_id, *files = sys.argv[1:]

def address_space():
    [line] = [each for each in open("/proc/self/status") if each.startswith("VmSize")]
    return int(line.split()[1]) << 10

def ingest(opened, path):
    delivery = Delivery(str(uuid4()), path.name, opened.clock())
    return ingest_file(opened.organization, path, delivery)

# They may be much work here: what is looked at is memory.
work = {"source_ratio": 1 << 40, "source_rows_per_byte": 1 << 40}
with open_home(Path(home), org_id, **work) as opened:
    # What every ingest needs once: libraries, threads and their stacks.
    warm = Path(home, "warm.csv")
    warm.write_text(HEADER + csv_row("warm"))
    ingest(opened, warm)
    for file in files:
        limit = address_space() + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        receipt = ingest(opened, Path(file))
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        print(Path(file).name, receipt.status, receipt.reason, receipt.received, flush=True)
"""


def ingested(folder: Path, org_id: str, zoo: dict, names: list[str]) -> dict[str, list[str]]:
    """What becomes of some files: status, reason and rows, by name."""
    files = []
    for name in names:
        files.append(folder / name)
        files[-1].write_bytes(zoo[name][0]())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "home"), org_id, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return {name: rest for name, *rest in map(str.split, done.stdout.splitlines())}


def check(folder: Path, zoo: dict, names: list[str]) -> None:
    org_id = new_home(folder / "home")
    found = ingested(folder, org_id, zoo, names)

    assert list(found) == names
    for name in names:
        status, reason, rows = found[name]
        expected = zoo[name][1]
        assert (status, reason) == ("failed" if expected else "done", str(expected)), name
        assert (int(rows) > 0) == (expected is None), name


# Of each kind of danger one that takes no time; all others are slow tests.
QUICK = [
    "row-of-40-MB.parquet",
    "footer-of-50-MB.parquet.gz",
    "schema-of-a-million.parquet",
    "nested.ndjson",
    "unclosed.json.gz",
]


@pytest.mark.slow
def test_the_quick_ones_are_read_within_a_gibibyte(tmp_path: Path) -> None:
    check(tmp_path, SMALL, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL.keys() - set(QUICK)))
def test_each_is_read_within_a_gibibyte(tmp_path: Path, name: str) -> None:
    check(tmp_path, SMALL, [name])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(LARGE))
def test_a_larger_one_is_read_within_a_gibibyte(tmp_path: Path, name: str) -> None:
    check(tmp_path, LARGE, [name])


@pytest.mark.slow
@pytest.mark.parametrize("name", LABORIOUS)
def test_a_small_file_that_would_be_much_work_is_refused(tmp_path: Path, name: str) -> None:
    """A file of 3 kB took 78 s: nothing of it is read beyond what a file of its size may be."""
    receipt = received(tmp_path, name, LABORIOUS[name]())

    assert (receipt.status, receipt.reason) == ("failed", "TooLarge"), receipt.detail
    assert "holds more than" in str(receipt.detail)
    assert "METERLAKE_SOURCE_R" in str(receipt.detail)
    assert receipt.accepted == receipt.rejected == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", MODEST)
def test_a_small_file_that_is_no_more_work_than_any_is_read(tmp_path: Path, name: str) -> None:
    receipt = received(tmp_path, name, MODEST[name]())

    assert (receipt.status, receipt.accepted, receipt.repeats) == ("done", 1, 99_999)


def received(folder: Path, name: str, data: bytes) -> Receipt:
    with a_home(folder) as home:
        path = folder / name
        path.write_bytes(data)
        delivery = Delivery("d1", name, home.clock())
        return ingest_file(home.organization, path, delivery)


KILLED = """
import sys
from pathlib import Path
from meterlake.model.values import failpoint
from meterlake.model.measurements.receipt import Delivery
from meterlake.pipeline.ingest.run import ingest_file
from tests.homes import open_home
from tests.killing import die_at

home, org_id, path, name = sys.argv[1:]
with open_home(Path(home), org_id) as opened:
    failpoint.hook = die_at("ingest.staged")
    ingest_file(opened.organization, Path(path), Delivery(name, "rows.csv", opened.clock()))
"""


@pytest.fixture
def file(tmp_path: Path) -> tuple[Path, str, Path]:
    """A home, its organization, and a file that can be read."""
    org_id = new_home(tmp_path / "home")
    path = tmp_path / "rows.csv"
    path.write_text(HEADER + csv_row("a"))
    return tmp_path / "home", org_id, path


def die_reading(home: Path, org_id: str, path: Path, name: str) -> None:
    """Read a file in a process that is killed meanwhile."""
    command = [sys.executable, "-c", KILLED, str(home), org_id, str(path), name]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@pytest.mark.slow
def test_a_file_that_killed_its_process_twice_fails_by_name(file: tuple[Path, str, Path]) -> None:
    home, org_id, path = file
    for _ in range(2):
        die_reading(home, org_id, path, "d1")

    with open_home(home, org_id) as opened:
        receipts = [
            ingest_file(
                opened.stores.organization(org_id), path, Delivery(each, "rows.csv", opened.clock())
            )
            for each in ("d1", "d2")
        ]

    assert (receipts[0].status, receipts[0].reason) == ("failed", "TooLarge")
    assert "died 2 times" in str(receipts[0].detail)
    # The same bytes, sent again by somebody who has more memory now.
    assert receipts[1].status == "done"


def test_deaths_at_a_file_are_those_of_its_organization(tmp_path: Path) -> None:
    """Somebody else's file of the same id is another one."""
    mine = Delivery("d1", "rows.csv", datetime(2026, 10, 1, tzinfo=UTC))
    with counting_deaths(tmp_path, "org-1", mine), counting_deaths(tmp_path, "org-2", mine):
        assert len(list((tmp_path / "reading").iterdir())) == 2


@pytest.mark.slow
def test_a_file_whose_process_died_once_is_read_alone(file: tuple[Path, str, Path]) -> None:
    """The other one may be what killed it: then that alone is counted the next time."""
    home, org_id, path = file
    for name in ("d1", "d2"):
        die_reading(home, org_id, path, name)

    with open_home(home, org_id) as opened:
        organization = opened.stores.organization(org_id)
        d1, d2 = (Delivery(each, "rows.csv", opened.clock()) for each in ("d1", "d2"))
        with counting_deaths(home, org_id, d1), pytest.raises(Busy):
            ingest_file(organization, path, d2)
        assert ingest_file(organization, path, d2).status == "done"
    assert [each.name for each in (home / "reading").iterdir()] == ["lock"]


def test_what_we_wrote_ourselves_is_never_given_up(tmp_path: Path) -> None:
    """Batches were acknowledged: they are read until they are in the lake."""
    own = Delivery("s1", "segment.ndjson", datetime(2026, 10, 1, tzinfo=UTC), own=True)
    with counting_deaths(tmp_path, "org", own):
        assert not (tmp_path / "reading").exists()
