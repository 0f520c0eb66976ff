"""Attempts at the job of an export: what each leaves to the next, when they stop, and how many."""

import shutil
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import boto3
import pytest

from meterlake.model.configuration.exports import ExportDestination
from meterlake.model.errors import (
    Conflict,
    Invalid,
    MeterlakeError,
    NotFound,
    RunnerUnavailable,
    Unavailable,
)
from meterlake.model.values import failpoint
from meterlake.model.work.export_request import KIND, ExportRequest, Format, Source
from meterlake.pipeline.export import jobs as export_jobs
from meterlake.pipeline.export.delivery import FAILURE
from meterlake.pipeline.export.run import EXPORT_JOBS, export, run_export, submit_export
from meterlake.pipeline.export.verify import verify
from meterlake.pipeline.jobs.attempt import DEATHS_MAX, Cancelled, GivenUp, running
from meterlake.stores.lake.maintenance import expire_snapshots
from meterlake.stores.objects import open_objects, s3
from meterlake.stores.objects.base import Altered
from meterlake.stores.state import JobStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.calculations.pins import pinned_snapshots
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events
from meterlake.stores.state.jobs import lease
from tests.doubles.destinations import LOCAL, S3, configured, destination, usage
from tests.doubles.http_faults import Cut, relay

pytest_plugins = ["tests.doubles.fixtures"]

BILLED = ("bills", "billLineItems", "focus")


@pytest.fixture
def home(export_home):
    return export_home


def billed(**more):
    return ExportRequest(source=Source.OPERATIONAL, format=Format.JSONL, types=BILLED, **more)


def recalculated(home):
    """Calculate the bill of the home again: 1 USD more."""
    with home.organization.transaction("test") as transaction:
        [bill] = bills.of_period(transaction)
        first, *others = bill.content.lines
        body = first.body | {"convertedSubtotal": first.body["convertedSubtotal"] + 1}
        lines = [replace(first, body=body), *others]
        content = replace(bill.content, total=bill.content.total + 1, lines=lines)
        assert bills.put(transaction, content)[1] is bills.PutOutcome.RECALCULATED


def totals(manifest):
    """The sums of money of bills, lines and FOCUS."""
    names = ("billTotal", "convertedSubtotal", "BilledCost")
    found = zip(names, manifest["files"], strict=True)
    return [Decimal(file["sums"][name]["USD"]) for name, file in found]


def at_step(monkeypatch, step, work, times=1):
    """Do something when an export reaches a step, the first times that it does."""
    left = [times]

    def hook(reached):
        if reached == step and left[0]:
            left[0] -= 1
            work()

    monkeypatch.setattr(failpoint, "hook", hook)


def stop(error):
    def work():
        raise error

    return work


def fails_for_good(home, job_id):
    """Let all attempts fail that the world may break: the last one fails the job."""
    for _ in range(EXPORT_JOBS.when_unavailable.tries):
        assert statuses(home, job_id)[0] is not JobStatus.FAILED
        with pytest.raises(Unavailable):
            run_export(home.stores, job_id)
        home.clock.later(minutes=2)


def statuses(home, job_id):
    job = home.stores.state.jobs.get(job_id)
    return job.status, job.error


# What one export shows, and what a retry puts.


def test_bills_lines_and_focus_of_one_export_are_those_of_one_instant(home, tmp_path, monkeypatch):
    at_step(monkeypatch, "export.file_staged", lambda: recalculated(home))
    during = export(home.organization, billed(to=str(tmp_path / "during")))
    after = export(home.organization, billed(to=str(tmp_path / "after")))

    [total] = set(totals(during.manifest))
    assert set(totals(after.manifest)) == {total + 1}


@pytest.mark.parametrize("error", [NotFound("bucket", "it"), Unavailable("it", "gone")])
def test_a_retry_puts_the_bytes_that_were_put_also_of_bills_that_changed(
    home, tmp_path, monkeypatch, error
):
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    at_step(monkeypatch, "export.file_put", stop(error))
    with pytest.raises(type(error)):
        run_export(home.stores, job_id)
    [put] = [path for path in tmp_path.rglob("*") if path.is_file()]
    before = put.read_bytes()
    recalculated(home)

    if isinstance(error, Unavailable):
        home.clock.later(minutes=2)
    else:
        export_jobs.retry(home.organization, job_id)
    exported = run_export(home.stores, job_id)

    assert put.read_bytes() == before
    assert len(set(totals(exported.manifest))) == 1
    assert list(verify(home.stores.settings, exported.manifest_url)) == []
    assert not (home.stores.home / "staging" / "exports" / job_id).exists()


def test_what_was_damaged_after_it_was_staged_is_written_again(home, tmp_path, monkeypatch):
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    staging = home.stores.home / "staging" / "exports" / job_id

    def damage():
        for path in staging.glob("*.gz"):
            path.write_bytes(path.read_bytes() + b"?")

    at_step(monkeypatch, "export.staged", damage)
    with pytest.raises(Altered):
        run_export(home.stores, job_id)
    assert not staging.exists()

    export_jobs.retry(home.organization, job_id)
    exported = run_export(home.stores, job_id)

    assert list(verify(home.stores.settings, exported.manifest_url)) == []


def test_what_is_not_staged_completely_does_not_stay(home, tmp_path, monkeypatch):
    configured(home, export_attempts=1)
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    at_step(monkeypatch, "export.file_staged", stop(Unavailable("disk", "full")))
    with pytest.raises(Unavailable):
        run_export(home.stores, job_id)

    assert not (home.stores.home / "staging" / "exports" / job_id).exists()


@pytest.mark.long
def test_names_are_those_of_when_the_job_was_made(home, tmp_path, monkeypatch):
    configured(home, export_folder=tmp_path)
    id_ = destination(home, prefix="old", **LOCAL)
    job_id = submit_export(home.organization, replace(usage(id_), format=Format.JSONL))
    home.clock.later(seconds=1)
    at_step(monkeypatch, "export.file_put", stop(SystemExit()))
    with pytest.raises(SystemExit):
        run_export(home.stores, job_id)
    shutil.rmtree(home.stores.home / "staging" / "exports" / job_id)
    configured(home, export_file_bytes=100)
    with home.organization.transaction("test") as transaction:
        before = transaction.get(ExportDestination, id_)
        changes = {"prefix": "new", "partitionOrder": "TYPE_FIRST", "bucketName": "ours"}
        changed = ExportDestination.from_wire(before.entity.to_wire() | changes)
        transaction.update(id_, before.version, changed)

    exported = run_export(home.stores, job_id)
    names = {each["key"] for each in exported.manifest["files"]}
    there = {path.relative_to(tmp_path / "ours" / "old") for path in written(tmp_path / "ours")}
    left = {path.relative_to(tmp_path / "theirs" / "old") for path in written(tmp_path / "theirs")}

    assert {str(path) for path in there if "manifest" not in path.name} == names
    assert len(there) == len(names) + 1
    assert left < there  # The bucket could be put right; the names are the same.


def written(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.long
def test_a_destination_that_is_named_twice_gets_everything_once(home, tmp_path):
    configured(home, export_folder=tmp_path)
    id_ = destination(home, **LOCAL)
    exported = export(home.organization, usage(id_, id_))

    assert len(exported.places) == 1


def test_where_one_of_several_destinations_fails_the_others_get_everything(home, tmp_path):
    configured(home, export_folder=tmp_path)
    (tmp_path / "file").touch()
    wrong = destination(home, bucketName="file", **LOCAL)
    others = [destination(home, bucketName=name, **LOCAL) for name in ("one", "two")]
    job_id = submit_export(home.organization, usage(others[0], wrong, others[1]))
    with pytest.raises(MeterlakeError):
        run_export(home.stores, job_id)

    job = home.stores.state.jobs.get(job_id)
    assert job.status is JobStatus.FAILED
    assert "a part of the path is a file" in str(job.error)
    [first] = (tmp_path / "one").rglob("*_manifest.json")
    [second] = (tmp_path / "two").rglob("*_manifest.json")
    assert first.read_bytes() == second.read_bytes()
    assert verify(home.stores.settings, second) == []

    (tmp_path / "file").unlink()
    home.stores.state.jobs.retry(home.org_id, job_id, job.kind)
    assert len(run_export(home.stores, job_id).places) == 3
    assert first.read_bytes() == next((tmp_path / "file").rglob("*_manifest.json")).read_bytes()


@pytest.mark.long
def test_a_destination_that_is_gone_keeps_nothing_from_the_others(home, tmp_path):
    configured(home, export_folder=tmp_path)
    gone, one, two = (destination(home, bucketName=each, **LOCAL) for each in ("off", "one", "two"))
    job_id = submit_export(home.organization, usage(gone, one, two))
    with home.organization.transaction("test") as transaction:
        transaction.delete(ExportDestination, gone)
    with pytest.raises(NotFound, match=gone):
        run_export(home.stores, job_id)

    [first] = (tmp_path / "one").rglob("*_manifest.json")
    [second] = (tmp_path / "two").rglob("*_manifest.json")
    assert verify(home.stores.settings, first) == verify(home.stores.settings, second) == []


@pytest.mark.long
def test_a_cancel_is_heard_before_the_next_place(home, tmp_path, monkeypatch):
    configured(home, export_folder=tmp_path)
    ids = [destination(home, bucketName=name, **LOCAL) for name in ("one", "two")]
    job_id = submit_export(home.organization, usage(*ids))

    def cancel(reached):
        if reached == "export.manifest_put":
            home.stores.state.jobs.cancel(home.org_id, job_id, KIND)

    monkeypatch.setattr(failpoint, "hook", cancel)
    with pytest.raises(Cancelled):
        run_export(home.stores, job_id)
    assert len(list((tmp_path / "one").rglob("*_manifest.json"))) == 1
    assert written(tmp_path / "two") == []


# Whose job it is.


def test_who_exports_at_once_leaves_nothing_to_a_worker(home, tmp_path, monkeypatch):
    jobs, seen = home.stores.state.jobs, []
    before = [job.id for job in jobs.waiting(home.org_id, KIND)]

    def look(step):
        seen.append((step, [job.id for job in jobs.waiting(home.org_id, KIND)]))

    monkeypatch.setattr(failpoint, "hook", look)
    exported = export(home.organization, billed(to=str(tmp_path)))

    assert [step for step, _ in seen[:2]] == ["export.submitted", "export.taken"]
    assert all(waiting == before for _, waiting in seen)
    job = jobs.get(exported.job_id)
    assert (job.status, job.attempt) == (JobStatus.COMPLETE, 1)
    assert job.snapshot == exported.manifest["snapshot"]


def test_the_end_of_a_job_tells_how_far_it_came(home, tmp_path):
    exported = export(home.organization, billed(to=str(tmp_path)))
    progress = home.stores.state.jobs.get(exported.job_id).progress

    assert (progress["phase"], progress["rows"]) == ("done", exported.rows)
    assert progress[f"delivered {tmp_path}"] == len(BILLED)


# A world that fails for a while.


GONE = Unavailable("lake", "the network is cut")


@pytest.mark.parametrize("times", [1, 2])
def test_files_are_made_again_if_the_lake_fails_meanwhile(home, tmp_path, monkeypatch, times):
    configured(home, export_attempts=3, export_retry_seconds=0.01)
    at_step(monkeypatch, "export.file_staged", stop(GONE), times=times)
    exported = export(home.organization, billed(to=str(tmp_path)))

    job = home.stores.state.jobs.get(exported.job_id)
    assert (job.status, job.attempt) == (JobStatus.COMPLETE, 1)
    assert list(verify(home.stores.settings, exported.manifest_url)) == []
    assert "the network is cut" in job.progress["trouble"]


@pytest.mark.parametrize(
    ("error", "tries"), [(GONE, 3), (RunnerUnavailable("the Dask scheduler", "it was lost"), 1)]
)
def test_a_lake_that_stays_away_leaves_the_job_waiting_and_fails_it_in_the_end(
    home, tmp_path, monkeypatch, error, tries
):
    configured(home, export_attempts=3, export_retry_seconds=0.01)
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    jobs, tried = home.stores.state.jobs, []

    def fail():
        tried.append(job_id)
        raise error

    at_step(monkeypatch, "export.file_staged", fail, times=9)
    with pytest.raises(type(error)):
        run_export(home.stores, job_id)

    # It waits, and nobody takes it before its pause is over.
    assert len(tried) == tries
    assert statuses(home, job_id) == (JobStatus.RUNNING, None)
    assert jobs.get(job_id).progress["trouble"] == str(error)
    assert job_id not in [job.id for job in jobs.waiting(home.org_id, KIND)]
    home.clock.later(minutes=2)
    assert job_id in [job.id for job in jobs.waiting(home.org_id, KIND)]
    for _ in range(EXPORT_JOBS.when_unavailable.tries - 1):
        with pytest.raises(type(error)):
            run_export(home.stores, job_id)
        home.clock.later(minutes=2)
    assert statuses(home, job_id) == (JobStatus.FAILED, str(error))


def test_who_waits_for_the_lake_hears_of_a_cancel(home, tmp_path, monkeypatch):
    configured(home, export_attempts=3, export_retry_seconds=60)
    # Who has a lease asks several times in it whether to go on.
    monkeypatch.setattr(lease, "LEASES", dict.fromkeys(lease.LEASES, timedelta(seconds=1)))
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))

    def fail():
        home.stores.state.jobs.cancel(home.org_id, job_id, KIND)
        raise GONE

    at_step(monkeypatch, "export.file_staged", fail)
    with pytest.raises(Cancelled):
        run_export(home.stores, job_id)
    assert statuses(home, job_id)[0] is JobStatus.CANCELLED


# Cancelling.


def cancel(home, job_id):
    return export_jobs.cancel(home.organization, job_id)


def test_a_job_whose_executor_is_dead_is_cancelled_at_once(home, tmp_path):
    jobs = home.stores.state.jobs
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    jobs.take(job_id, 1)
    assert cancel(home, job_id)["status"] == "RUNNING"  # It may be alive.
    home.clock.later(minutes=2)

    assert cancel(home, job_id)["status"] == "FAILED"
    assert jobs.get(job_id).status is JobStatus.CANCELLED
    assert written(tmp_path) == []


def test_a_cancel_that_nobody_heard_of_is_not_forgotten(home, tmp_path):
    jobs = home.stores.state.jobs
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    jobs.take(job_id, 1)
    cancel(home, job_id)
    home.clock.later(minutes=2)

    with pytest.raises(Cancelled):
        run_export(home.stores, job_id)
    assert jobs.get(job_id).status is JobStatus.CANCELLED
    assert written(tmp_path) == []
    assert not (home.stores.home / "staging" / "exports" / job_id).exists()


@pytest.mark.parametrize(
    ("step", "objects"), [("export.taken", 0), ("export.staged", 0), ("export.file_put", 3)]
)
def test_a_short_export_hears_of_a_cancel_too(home, tmp_path, monkeypatch, step, objects):
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    at_step(monkeypatch, step, lambda: cancel(home, job_id))
    with pytest.raises(Cancelled):
        run_export(home.stores, job_id)

    assert statuses(home, job_id) == (
        JobStatus.CANCELLED,
        f"the export {job_id} was cancelled; begin another one to have it done",
    )
    assert len(written(tmp_path)) == objects
    assert not [path for path in written(tmp_path) if "manifest" in path.name]
    export_jobs.retry(home.organization, job_id)
    exported = run_export(home.stores, job_id)
    assert list(verify(home.stores.settings, exported.manifest_url)) == []


# Those who die.


def die(home, job_id):
    """What the job of an export sees of an attempt whose process is killed."""
    jobs = home.stores.state.jobs
    with running(jobs, jobs.take(job_id, 1)) as attempt:
        attempt.begin()
    home.clock.later(minutes=2)


def test_a_job_whose_process_always_dies_is_given_up_and_tells_so(home, tmp_path):
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    for _ in range(DEATHS_MAX):
        die(home, job_id)
    with pytest.raises(GivenUp):
        run_export(home.stores, job_id)
    status, error = statuses(home, job_id)

    assert status is JobStatus.FAILED
    assert f"its process died {DEATHS_MAX} times" in error
    with home.organization.reading() as reader:
        [told], _ = events.page(reader, events.EventFilter(names=(FAILURE,)), Page(1))
    assert told.event.data["newDto"]["message"] == error
    export_jobs.retry(home.organization, job_id)
    die(home, job_id)
    assert run_export(home.stores, job_id).rows > 0


def test_a_job_that_was_left_is_not_renewed(home, tmp_path):
    """A renewal may wait for the database while the attempt is left: it would take the job back."""
    jobs = home.stores.state.jobs
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    with running(jobs, jobs.take(job_id, 1)) as attempt:
        attempt.tell(rows=7)
        attempt.leave()
        attempt.tell(rows=6)
        attempt.renew()

        assert jobs.take(job_id, 1).progress["rows"] == 7
        attempt.check()


def test_who_stops_in_order_is_not_counted(home, tmp_path, monkeypatch):
    job_id = submit_export(home.organization, billed(to=str(tmp_path)))
    for _ in range(DEATHS_MAX - 1):
        die(home, job_id)
    at_step(monkeypatch, "export.file_staged", stop(SystemExit()), times=2)
    for _ in range(2):
        with pytest.raises(SystemExit):
            run_export(home.stores, job_id)

    assert run_export(home.stores, job_id).rows > 0


# The snapshot of the lake.


def test_a_job_whose_snapshot_has_gone_says_so(home, tmp_path):
    jobs = home.stores.state.jobs
    ids = [
        submit_export(home.organization, request)
        for request in (
            ExportRequest(source=Source.USAGE, to=str(tmp_path / "one")),
            ExportRequest(source=Source.USAGE, to=str(tmp_path / "two")),
            billed(to=str(tmp_path / "three")),
        )
    ]
    snapshot = home.lake.snapshot()
    failed, silent, other = (jobs.take(id_, snapshot) for id_ in ids)
    for each in (failed, other):
        jobs.finish(each, error="it failed")
    home.store(home.meter("later"), [])
    assert snapshot in pinned_snapshots(home.stores.state, home.org_id)
    with home.lake.lock():
        expire_snapshots(home.lake, timedelta(0), ())
    home.clock.later(minutes=2)

    with pytest.raises(Conflict, match=f"the snapshot {snapshot} of the lake, which has expired"):
        export_jobs.retry(home.organization, failed.id)
    with pytest.raises(Conflict, match="ask for it anew"):
        run_export(home.stores, silent.id)
    assert jobs.get(silent.id).status is JobStatus.FAILED
    # Operational exports do not read the lake.
    export_jobs.retry(home.organization, other.id)
    assert run_export(home.stores, other.id).rows > 0


# Parts of large objects.


@pytest.fixture
def parted(home, export_bucket, monkeypatch):
    """A job to a bucket, whose files go up in parts, and the network on the way there."""
    place, name = export_bucket
    monkeypatch.setattr("moto.s3.models.S3_UPLOAD_PART_MIN_SIZE", 1)
    monkeypatch.setattr(s3, "PART_BYTES", 100)
    with relay(place.server) as network:
        configured(home, s3_endpoint=network.url, export_attempts=1, export_credentials="own")
        id_ = destination(home, bucketName=name, prefix="some/prefix", **S3)
        yield submit_export(home.organization, usage(id_)), name, network


def parts(home, name):
    """The keys of uploads in parts that did not end."""
    client = boto3.client(
        "s3", endpoint_url=home.stores.settings.s3_endpoint, region_name="us-east-1"
    )
    found = client.list_multipart_uploads(Bucket=name).get("Uploads", [])
    client.close()
    return [each["Key"] for each in found]


@pytest.mark.long
def test_an_export_that_failed_leaves_no_parts(home, parted):
    job_id, name, network = parted
    lost = []

    def rule(asked):
        if asked.step == "part 2":
            raise Cut
        if asked.step == "abort" and "uploads" not in network.steps():
            lost.append(asked.path)
            raise Cut

    network.rule = rule
    fails_for_good(home, job_id)

    assert lost
    assert parts(home, name) == []
    assert statuses(home, job_id)[0] is JobStatus.FAILED


@pytest.mark.long
def test_who_cancels_a_dead_export_leaves_no_parts(home, parted, monkeypatch):
    job_id, name, _ = parted
    at_step(monkeypatch, "export.file_put", stop(SystemExit()))
    with pytest.raises(SystemExit):
        run_export(home.stores, job_id)
    [there] = open_objects(f"s3://{name}/some/prefix", home.stores.settings).list()
    client = boto3.client(
        "s3", endpoint_url=home.stores.settings.s3_endpoint, region_name="us-east-1"
    )
    for key in (f"some/prefix/{there.key}", "some/prefix/of/others"):
        client.create_multipart_upload(Bucket=name, Key=key)
    client.close()

    assert cancel(home, job_id)["status"] == "FAILED"
    assert parts(home, name) == ["some/prefix/of/others"]


@pytest.mark.slow
def test_an_end_without_a_result_is_told_although_the_parts_cannot_be_cleared(
    home, parted, monkeypatch
):
    job_id, _, network = parted
    at_step(monkeypatch, "export.file_put", stop(Invalid("it", 1, "not right")))

    def rule(asked):
        if asked.step == "uploads":
            raise Cut

    network.rule = rule
    with pytest.raises(MeterlakeError, match="not right"):
        run_export(home.stores, job_id)
    job = home.stores.state.jobs.get(job_id)

    assert job.status is JobStatus.FAILED
    assert [name for name in job.progress if name.startswith("parts left")]
