"""Exports have the same files to the byte, whatever carries their partitions."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.export import partition_tasks
from meterlake.pipeline.export.run import KIND, export, run_export, submit_export
from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.jobs.attempt import Cancelled
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.fan_out.tasks import TasksFailed
from meterlake.stores.state import JobStatus
from tests.bills import a_home_to_bill
from tests.homes import ndjson, open_home, wire_row
from tests.runners import HEAVY_RUNNERS

SEPTEMBER = Month(2026, 9)
REQUESTS = {
    "usage": ExportRequest(source=Source.USAGE, format=Format.CSV, file_bytes=2048),
    "parquet": ExportRequest(source=Source.USAGE, format=Format.PARQUET),
    "operational": ExportRequest(
        source=Source.OPERATIONAL,
        format=Format.JSONL,
        types=("bills", "focus", "accounts", "billLineItems", "balances", "plans"),
    ),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory, lake_location):
    del lake_location  # It is made again where the lakes are elsewhere.
    with a_home_to_bill(tmp_path_factory.mktemp("exported")) as opened:
        rows = [wire_row(f"r{n:03}", n / 8, ("acme", "bolt")[n % 2]) for n in range(90)]
        calls = [
            {"meter": "calls", "account": "acme", "uid": f"c{n}", "ts": "2026-09-03T10:00:00Z"}
            | {"measure": {"n": n}}
            for n in range(20)
        ]
        opened.ingest("rows.ndjson", ndjson(rows + calls))
        aggregate(opened.organization, SEPTEMBER)
        bill(opened.organization, SEPTEMBER)
        opened.clock.time = datetime.now(UTC) + timedelta(hours=1)
        yield opened


def with_runner(home, runner):
    return open_home(home.stores.home, home.org_id, home.clock, runner=runner)


def write(home, request):
    """What an export wrote: each file's place in the manifest, its bytes and its totals."""
    done = export(home.organization, request)
    files = done.manifest["files"]
    assert verify(home.stores.settings, done.manifest_url) == []
    assert not (home.stores.home / "staging" / "exports" / done.job_id).exists()
    content = [Path(done.url, each["key"]).read_bytes() for each in files]
    totals = [{name: value for name, value in each.items() if name != "key"} for each in files]
    return totals, content, done.manifest["rows"]


@pytest.mark.long
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("runner", HEAVY_RUNNERS)
def test_exports_are_the_same_with_any_runner(home, kind, runner):
    expected = write(home, REQUESTS[kind])
    with with_runner(home, runner) as other:
        found = write(other, REQUESTS[kind])

    assert len(expected[0]) >= 3
    assert found == expected


@pytest.mark.long
def test_a_partition_that_fails_is_named_and_nothing_is_put(home, tmp_path, monkeypatch):
    stage = partition_tasks.stage_usage

    def fail_quantities(staging, part, only):
        if part.name == "quantities":
            raise ZeroDivisionError("no such luck")
        return stage(staging, part, only)

    monkeypatch.setattr(partition_tasks, "stage_usage", fail_quantities)
    request = ExportRequest(source=Source.USAGE, format=Format.CSV, to=str(tmp_path))
    with (
        with_runner(home, "threads") as other,
        pytest.raises(TasksFailed, match=r"^quantities in export .*: ZeroDivisionError"),
    ):
        export(other.organization, request)

    ended = [each.status for each in home.stores.state.jobs.recent(home.org_id, KIND)]
    assert JobStatus.FAILED in ended
    assert list(tmp_path.iterdir()) == []


def test_a_partition_of_a_cancelled_export_ends(home, monkeypatch):
    """The task asks State itself: the process that works on the job may be another one."""
    request = ExportRequest(source=Source.USAGE, format=Format.CSV)
    with with_runner(home, "threads") as other:
        job_id = submit_export(other.organization, request)
        run_tasks = partition_tasks.run_tasks

        def cancel_first(stores, runner, tasks, note):
            stores.state.jobs.cancel(other.org_id, job_id, KIND)
            return run_tasks(stores, runner, tasks, note)

        monkeypatch.setattr(partition_tasks, "run_tasks", cancel_first)
        with pytest.raises(Cancelled):
            run_export(other.stores, job_id)
        assert other.stores.state.jobs.get(job_id).status is JobStatus.CANCELLED
    shutil.rmtree(home.stores.home / "staging" / "exports", ignore_errors=True)
