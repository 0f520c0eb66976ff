"""kill -9 at every step between claim and archive, and again during the recovery.

Of the second crashes a sample is tried; all of them, for an hour or two, are tried by
`THOROUGH=1 pytest -m slow -n 0 tests/e2e/test_crash.py`.
"""

import os
import random

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.homes import HEADER, csv_row, new_home, zst

SOURCES = (
    *("pipeline/ingest/drop.py", "pipeline/ingest/run.py", "pipeline/ingest/staging.py"),
    *("pipeline/ingest/commit.py", "pipeline/ingest/reporting.py"),
    *("stores/lake/lake.py", "stores/lake/backends/data_files.py"),
)
# Every file that is worked begins with it.
BEGIN = "drop.claim_made"
LATER_EVERY = 40
# Of the steps at which one crash is tried, the default suite has one part.
PARTS = 6
GOOD = HEADER + "".join(csv_row(f"u{n}") for n in range(6))
MIXED = HEADER + "".join(
    [
        csv_row("u1"),
        csv_row("u2", 7),
        csv_row("", account="newcomer", ts="2026-08-03T10:00:00Z"),
        csv_row("v1", "NaN"),
        csv_row("v2", meter="nope"),
        "short,row\n",
        csv_row("v3"),
    ]
)


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    """A home with three files in its inbox: one of them compressed, one mixed, one a repeat."""
    home = tmp_path_factory.mktemp("crash") / "template"
    org_id = new_home(home)
    inbox = home / "drop" / "sample" / "inbox"
    (inbox / "1.csv.zst").write_bytes(zst(GOOD.encode()))
    (inbox / "2.csv").write_text(MIXED)
    (inbox / "3 again.csv.zst").write_bytes(zst(GOOD.encode()))
    return Lives(processes, home, org_id)


def test_the_files_meet_every_step_that_the_source_marks(lives):
    steps = marked(*SOURCES)

    assert steps <= set(lives.undisturbed["reached"])
    assert len(steps) >= 12


@pytest.mark.long
def test_without_a_crash_everything_is_where_it_belongs(lives):
    state = lives.undisturbed["state"]

    assert state["ledger"] == [
        ["1.csv.zst", 1, "done", 6, 6, 0, 0],
        ["2.csv", 1, "done", 7, 2, 1, 4],
        ["3 again.csv.zst", 2, "done", 6, 0, 6, 0],
    ]
    assert state["inbox"] == state["claimed"] == []
    assert len(state["done"]) == 6
    assert "newcomer" in str(state["accounts"])
    assert [told["rejected"] for _, told, _ in state["events"]] == [4]


@pytest.mark.long
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_after_a_crash_at_any_step_the_next_run_ends_where_it_would_have(lives, part):
    """At the last time that a step is met: most is there by then that could be lost.

    All times before are slower.
    """
    assert lives.broken(lives.last_steps("")[part::PARTS]) == []


@pytest.mark.slow
def test_no_crash_at_any_step_of_any_file_changes_anything(lives):
    assert lives.broken(lives.outer_steps("")) == []


@pytest.mark.slow
def test_a_second_crash_during_the_recovery_changes_nothing_either(lives):
    again, _ = lives.pairs_by_piece(BEGIN)

    assert lives.broken(random.Random(20261001).sample(again, 1)) == []


@pytest.mark.slow
def test_no_two_crashes_change_anything(lives):
    """Two within one file for each first step, and some that reach a later file."""
    again, later = lives.pairs_by_piece(BEGIN)
    if "THOROUGH" not in os.environ:
        again = _one_for_each_first(again)
        later = later[::LATER_EVERY]
    pairs = again + later

    for at in range(0, len(pairs), 40):
        assert lives.broken(pairs[at : at + 40]) == []


def _one_for_each_first(pairs):
    shuffled = random.Random(20261002).sample(pairs, len(pairs))
    return list(dict(shuffled).items())
