"""Every step that the doors declare belongs to a test that kills a process there."""

import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

import meterlake
from tests.e2e.crashing import zygote
from tests.homes import HEADER, csv_row, new_home, open_home

# Who kills a process at each step that these files mark.
KILLED_BY = {
    "pipeline/backfill/edits.py": "e2e/test_backfill_crash.py",
    "pipeline/backfill/lifecycle.py": "e2e/test_backfill_crash.py",
    "pipeline/backfill/partitions.py": "e2e/test_backfill_crash.py",
    "pipeline/backfill/reaggregate.py": "e2e/test_backfill_crash.py",
    "pipeline/backfill/rederive.py": "e2e/test_backfill_crash.py",
    "pipeline/backfill/replace.py": "e2e/test_backfill_crash.py",
    "pipeline/backfill/retract.py": "e2e/test_backfill_crash.py",
    "pipeline/commit.py": "e2e/test_crash.py",
    "pipeline/drop.py": "e2e/test_crash.py",
    "pipeline/export.py": "e2e/test_export_crash.py",
    "pipeline/export_delivery.py": "e2e/test_export_crash.py",
    "pipeline/export_staging.py": "e2e/test_export_crash.py",
    "pipeline/file_jobs.py": "e2e/test_upload_crash.py",
    "pipeline/inbox.py": "unit/pipeline/test_inbox.py",
    "pipeline/ingest.py": "e2e/test_crash.py",
    "pipeline/lookup_files.py": "e2e/test_lookup_crash.py",
    "pipeline/receiving.py": "e2e/test_upload_crash.py",
    "pipeline/rejected.py": "e2e/test_requeue_crash.py",
    "pipeline/reporting.py": "e2e/test_crash.py",
    "pipeline/segments.py": "unit/pipeline/test_segments.py",
    "pipeline/uploads.py": "e2e/test_upload_crash.py",
    "pipeline/staging.py": "e2e/test_crash.py",
    "stores/lake.py": "e2e/test_crash.py",
    "stores/lake_maintenance.py": "e2e/test_failpoints.py",
    "stores/objects/local.py": "e2e/test_upload_crash.py",
    "stores/objects/s3.py": "e2e/test_export_crash.py",
    "stores/segments.py": "unit/stores/test_segments.py",
}
# Steps of what comes after ingest; their own tests stop there.
BEHIND = {
    "pipeline/bill.py",
    "pipeline/incidents.py",
    "pipeline/publish.py",
    "pipeline/publish_parquet.py",
    "stores/quantities.py",
}
WORK = "tests.e2e.test_failpoints:upkeep"


def upkeep(home):
    """What a process does that maintains a lake."""
    from meterlake.pipeline.maintain import maintain

    maintain(home.stores, home.org_id, kept_for=timedelta(0))
    return {}


def test_every_declared_step_has_a_test_that_kills_there():
    package = Path(meterlake.__file__).parent
    marking = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r'reached\(\s*"', path.read_text())
    }

    assert marking == KILLED_BY.keys() | BEHIND
    for test in set(KILLED_BY.values()):
        text = (Path(__file__).parents[1] / test).read_text()
        assert "SIGKILL" in text or "zygote" in text, test


@pytest.fixture(scope="module")
def processes():
    with zygote() as parent:
        yield parent


@pytest.mark.slow
def test_upkeep_that_dies_loses_nothing_and_the_next_one_ends_it(processes, tmp_path):
    template = tmp_path / "template"
    org_id = new_home(template)
    with open_home(template, org_id) as home:
        for number in range(3):
            text = HEADER + csv_row(f"u{number}") + csv_row(f"x{number}", "NaN")
            home.drop(f"{number}.csv", text)
            home.work()
        expected = home.measurements(), home.uids(), home.rejected(), home.ledger()

    step, died = 0, True
    while died:
        copy = tmp_path / str(step)
        shutil.copytree(template, copy)
        died = processes.run([copy], org_id, step, WORK)["died"]
        with open_home(copy, org_id) as home:
            upkeep(home)
            found = home.measurements(), home.uids(), home.rejected(), home.ledger()
            assert found == expected, step
            home.check()
        shutil.rmtree(copy)
        step += 1

    assert step > 8
