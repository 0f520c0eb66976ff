"""The law of requeueing: whatever is delivered, corrected and given in again, each row counts once."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.measurements.receipt import Receipt
from meterlake.pipeline.ingest.rejected_rows import list_rejected
from meterlake.pipeline.rejected.rejected_files import Edit
from meterlake.pipeline.rejected.requeue import requeue, requeue_edited
from meterlake.stores.lake.rejected import RejectedFilter
from tests.homes import HEADER, Home, a_home, csv_row
from tests.integration.pipeline.rejected.test_rejected import correct

few = settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

# A row of a file: with a uid or without, and whether it is fine, of a meter that is configured
# later, or has a number that somebody must mend.
rows = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["good", "later", "broken"])), min_size=1, max_size=4
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 1)),
        st.tuples(st.just("requeue"), st.sampled_from([None, "UndefinedMeter", "InvalidNumber"])),
        st.tuples(st.just("edit"), st.integers(0, 7)),
        st.tuples(st.just("correct"), st.none()),
    ),
    max_size=7,
)


def file_of(number: int, wanted: list[tuple[bool, str]]) -> str:
    """A file whose rows all differ from each other's and from the other file's."""
    lines = [
        csv_row(
            f"f{number}-{place}" if named else "",
            "x" if kind == "broken" else str(number * 100 + place),
            meter="later" if kind == "later" else "egress",
        )
        for place, (named, kind) in enumerate(wanted)
    ]
    return HEADER + "".join(lines)


def check(home: Home, delivered: set[int], files: list[list[tuple[bool, str]]]) -> None:
    """Each row that was delivered is stored once, or open once."""
    home.check()
    stored = len(home.measurements())
    still = list_rejected(home.organization, RejectedFilter(), 100)
    assert len({row.place for row in still}) == len(still)
    assert stored + len(still) == sum(len(files[number]) for number in delivered)


@pytest.mark.slow
@few
@given(st.lists(rows, min_size=2, max_size=2), steps)
def test_every_row_is_counted_once_whatever_is_done(files, doing):
    delivered: set[int] = set()
    receipts: list[Receipt] = []
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder)) as home:
        for verb, value in [*doing, ("deliver", 0), ("deliver", 1)]:
            if verb == "deliver":
                receipts.append(home.ingest(f"{value}.csv", file_of(value, files[value])))
                delivered.add(value)
            elif verb == "requeue":
                requeue(home.organization, RejectedFilter(reason=value))
            elif verb == "edit":
                mend(home, value)
            else:
                correct(home)
            check(home, delivered, files)
        correct(home)
        while mend(home, 0):
            pass
        requeue(home.organization, RejectedFilter())
        for number in delivered:
            receipts.append(home.ingest("last.csv", file_of(number, files[number])))
            assert receipts[-1].accepted == receipts[-1].rejected == 0
        assert len(home.measurements()) == sum(map(len, files))
        check(home, delivered, files)


def mend(home: Home, number: int) -> bool:
    """Give one of the rows with a broken number in again, with another number; whether there was one."""
    found = list_rejected(home.organization, RejectedFilter(reason="InvalidNumber"), 100)
    if found:
        row = found[number % len(found)]
        edited = json.loads(row.measurement or "") | {"measure": {"gb": -5}}
        edits = [Edit(str(row.place), json.dumps(edited), "law")]
        requeue_edited(home.organization, edits)
    return bool(found)
