"""A file of bad rows only, but for a few: every one is told, memory is bounded, the good ones stay."""

import json
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from meterlake.model.measurements.receipt import SAMPLE_MAX
from meterlake.pipeline.ingest.rejected_rows import list_rejected
from meterlake.stores.lake.rejected import RejectedFilter
from tests.homes import HEADER, csv_row, new_home, open_home

# The most memory since the process began to be this program: what its parent took counts for others.
COMMAND = """
import atexit, pathlib, sys
atexit.register(lambda: sys.stderr.write(pathlib.Path("/proc/self/status").read_text()))
from meterlake.cli import main
main()
"""
# The texts of 100,000 long rows, 300 MB, do not fit twice beside what every process needs.
DUCKDB_MEMORY = "200MB"
PEAK_MB = 900
GOOD = ("first", "middle", "last")
KINDS = {
    "UndefinedMeter": {"meter": "nope"},
    "InvalidNumber": {"gb": "NaN"},
    "InvalidTimestamp": {"ts": "yesterday"},
    "MissingField": {"account": ""},
}


def bad_row(number, region):
    reason = list(KINDS)[number % len(KINDS)]
    return reason, csv_row(f"u{number}", **{"region": region, **KINDS[reason]})


def write(path, count, region):
    """A file of so many bad rows, with good ones before, between and behind; the reasons by row."""
    expected = {}
    with path.open("w") as file:
        file.write(HEADER + csv_row(GOOD[0]))
        for number in range(count):
            if number == count // 2:
                file.write(csv_row(GOOD[1]))
            reason, line = bad_row(number, region)
            expected[number + 3 + (number >= count // 2)] = reason
            file.write(line)
        file.write(csv_row(GOOD[2]))
    return expected


def ingest(path, home):
    """What the command prints, and the most memory that its process took, in MB."""
    line = [sys.executable, "-c", COMMAND, "ingest", str(path), "--home", str(home), "--json"]
    env = os.environ | {"METERLAKE_DUCKDB_MEMORY": DUCKDB_MEMORY}
    done = subprocess.run(line, capture_output=True, env=env, check=True, text=True)
    [peak_kb] = re.findall(r"^VmHWM:\s+(\d+) kB", done.stderr, re.MULTILINE)
    return json.loads(done.stdout), int(peak_kb) >> 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "length"), [(20_000, 100), pytest.param(100_000, 3000, marks=pytest.mark.slow)]
)
def test_every_bad_row_of_many_is_told_with_its_reason_in_bounded_memory(tmp_path, count, length):
    org_id = new_home(tmp_path / "home")
    expected = write(tmp_path / "bad.csv", count, "x" * length)

    receipt, peak_mb = ingest(tmp_path / "bad.csv", tmp_path / "home")

    assert receipt["received"] == count + len(GOOD)
    assert (receipt["accepted"], receipt["rejected"]) == (len(GOOD), count)
    assert receipt["reasons"] == Counter(expected.values())
    sample = [(row["row"], row["reason"]) for row in receipt["rejectedSample"]]
    assert sample == list(expected.items())[:SAMPLE_MAX]
    assert peak_mb < PEAK_MB
    with open_home(tmp_path / "home", org_id) as home:
        assert sorted(uid for uid, *_ in home.uids()) == sorted(GOOD)
        told = list_rejected(
            home.stores.organization(org_id), RejectedFilter(status="open"), count + 1
        )
        assert [(row.place.row, row.reason) for row in told] == list(expected.items())
        home.check()
