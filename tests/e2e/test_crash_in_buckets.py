"""kill -9 at every step of an ingest whose lake is in a bucket and has its catalog in PostgreSQL."""

import pytest

from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.homes import HEADER, csv_row, new_home

SOURCES = (
    *("pipeline/ingest/commit.py", "stores/lake/lake.py"),
    "stores/lake/backends/bucket_files.py",
)
STEPS = ("commit.", "lake.", "ingest.")
FIRST = HEADER + "".join(csv_row(f"u{n}") for n in range(6))
SECOND = HEADER + csv_row("u1") + csv_row("u2", 7) + csv_row("v1", account="newcomer")


@pytest.fixture(scope="module")
def lives(lake_location, tmp_path_factory):  # noqa: ARG001
    """A home with two files in its inbox, of which the second one repeats and contradicts."""
    home = tmp_path_factory.mktemp("crash") / "template"
    org_id = new_home(home)
    inbox = home / "drop" / "sample" / "inbox"
    (inbox / "1.csv").write_text(FIRST)
    (inbox / "2.csv").write_text(SECOND)
    with zygote() as processes:
        yield Lives(processes, home, org_id)


@pytest.mark.slow
@pytest.mark.parametrize("lake_location", ["s3"], indirect=True)
def test_whoever_dies_around_an_upload_loses_nothing_and_doubles_nothing(lives):
    assert marked(*SOURCES) <= set(lives.undisturbed["reached"])
    assert lives.undisturbed["state"]["ledger"] == [
        ["1.csv", 1, "done", 6, 6, 0, 0],
        ["2.csv", 1, "done", 3, 1, 1, 1],
    ]
    assert lives.broken(lives.last_steps("lake.file_uploaded", "lake.before_commit")) == []


@pytest.mark.slow
@pytest.mark.parametrize("lake_location", ["s3", "gcs"], indirect=True)
def test_no_crash_at_any_step_changes_what_is_in_the_bucket(lives):
    assert lives.broken(lives.outer_steps(*STEPS)) == []
