"""The verb `export`: measurements, quantities, bills and configuration as files with a manifest.

An export is a job. It pins the snapshot of the lake and reads the configuration as it was when the
job was created. Its files are written to a staging folder first, then put under names that follow
from the job, the manifest last. Whoever runs the job again after a crash continues: files that are
staged completely are put as they are, so that every attempt puts the same bytes.
"""

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.errors import (
    Busy,
    Conflict,
    MeterlakeError,
    NotFound,
    StaleVersion,
    Unavailable,
)
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.export_request import KIND, ExportRequest, Source
from meterlake.pipeline.config.schedule_jobs import exports_enabled
from meterlake.pipeline.export.delivery import (
    Delivered,
    Target,
    clear_parts,
    deliver,
    encode_manifest,
    export_patience,
    for_order,
    keep_for_download,
    kept_manifest,
    may_be_delivered,
    note_failure_event,
    openers_of,
    targets_of,
)
from meterlake.pipeline.export.destinations import missing_here
from meterlake.pipeline.export.operational import stage_operational
from meterlake.pipeline.export.partition_tasks import export_folder, spread_files
from meterlake.pipeline.export.staging import ExportStaging, manifest_of
from meterlake.pipeline.export.usage import stage_usage
from meterlake.pipeline.jobs.attempt import Attempt, Cancelled
from meterlake.pipeline.jobs.job_spec import JobPins, JobSpec, WhenUnavailable
from meterlake.pipeline.jobs.run_job import (
    JobRun,
    cancel_job,
    note_run_act,
    run_here,
    run_job,
    run_taken_here,
)
from meterlake.stages.export.exported_columns import exports_of
from meterlake.stores import Organization, Stores
from meterlake.stores.fan_out import runner_of
from meterlake.stores.files.durable import make_folder, write_durably
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.lake.tables import has_snapshot
from meterlake.stores.objects.base import Altered
from meterlake.stores.state import Job, JobStatus, Transaction
from meterlake.stores.state.acts import ActAction
from meterlake.stores.state.jobs import AGAIN, is_known, submit

AUTHOR: Final = "exports"
_MANIFEST: Final = "manifest.json"
_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Exported:
    """An export that is complete.

    Attributes:
        manifest: What it wrote, with the keys of the first place that it went to.
        places: Where its objects are now.
        download: The key of what is kept for the download, if anything is.
    """

    job_id: str
    manifest: dict[str, Any]
    places: tuple[Delivered, ...]
    download: str | None = None

    @property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(file["rows"] for file in self.manifest["files"])

    @property
    def url(self) -> str:
        """The first place that it went to; empty if it is only kept for the download."""
        return self.places[0].url if self.places else ""

    @property
    def manifest_url(self) -> str:
        """The manifest in that place."""
        return self.places[0].manifest_url if self.places else ""


def export(organization: Organization, request: ExportRequest, author: str = AUTHOR) -> Exported:
    """Export an organization's data as files, and a manifest that is written last.

    No worker takes the job meanwhile, which may have other credentials and other folders.

    Raises:
        Invalid: A type, the target or its credentials are not right.
        NotFound: The bucket does not exist.
        Unavailable: A disk or a network failed, also after some tries; `run_export` can continue
            after `Jobs.retry`.
        Conflict: It was cancelled.
    """
    request = _whole(organization.stores, _place_request(organization, request))
    snapshot = organization.lake.snapshot()
    with organization.transaction(author) as transaction:
        job = _job_of(transaction, request)
        submit(transaction.connection, job.begin(snapshot))
    return run_here(organization.stores, EXPORT_JOBS, job.id, _mark_begun)


def _mark_begun() -> None:
    mark_step("export.submitted")
    mark_step("export.taken")


def run_to_end_here(stores: Stores, job_id: str) -> Exported:
    """Run a job to its end for a person who waits for it; see `run_to_end`.

    If that person stops waiting, the job is cancelled, whoever works on it.

    Raises:
        Conflict: It failed there, or was cancelled.
    """
    try:
        return run_to_end(stores, job_id, run_taken_here)
    except Exception:
        raise
    except BaseException:
        with suppress(MeterlakeError):  # Usually it has ended.
            cancel_export(stores.organization(stores.state.jobs.get(job_id).org_id), job_id)
        raise


def run_to_end(
    stores: Stores,
    job_id: str,
    run: Callable[[Stores, JobSpec[Exported], str], Exported] = run_job,
) -> Exported:
    """Run a job to its end, or wait for who was faster: a worker takes whatever it sees.

    Args:
        stores: The home's stores.
        job_id: The job.
        run: Whether somebody else goes on with it if this process is interrupted.

    Raises:
        Conflict: It failed there, or was cancelled.
    """
    while True:
        try:
            return _run(stores, job_id, run)
        except Busy:
            job = stores.state.jobs.get(job_id)
            if job.status in {JobStatus.FAILED, JobStatus.CANCELLED}:
                reason = f": {job.error}" if job.error else ""
                raise Conflict(
                    f"the export {job_id}: {job.status.description}{reason};"
                    " have it run once more, or export again"
                ) from None
            time.sleep(_LOOK_S)


def submit_export(
    organization: Organization,
    request: ExportRequest,
    author: str = AUTHOR,
    id: str | None = None,
    snapshot: int | None = None,
) -> str:
    """Make the job of an export; whoever takes it runs it.

    Args:
        organization: The organization.
        request: What is exported.
        author: Who asks for it.
        id: The job's id, so that asking again makes no other job; a new one if None.
        snapshot: The lake's snapshot that it reads; the newest at its first attempt if None.

    Returns:
        The job's id.

    Raises:
        Invalid: A type or a target is not right.
        NotFound: There is no such destination.
    """
    request = _place_request(organization, request)
    with organization.transaction(author) as transaction:
        if id is not None and is_known(transaction.connection, id):
            return id
        job = _job_of(transaction, request, id, snapshot)
        submit(transaction.connection, job)
    mark_step("export.submitted")
    return job.id


def _job_of(
    transaction: Transaction,
    request: ExportRequest,
    id: str | None = None,
    snapshot: int | None = None,
) -> Job:
    return Job(
        id=id or transaction.new_id(),
        org_id=transaction.org_id,
        kind=KIND,
        parameters=request.to_wire(),
        created=transaction.now,
        author=transaction.author,
        snapshot=snapshot,
    )


def _place_request(organization: Organization, request: ExportRequest) -> ExportRequest:
    """A request that does not depend on where it is run; what goes nowhere goes into the home.

    Raises:
        Invalid: A type or a target is not right.
        NotFound: There is no such destination.
    """
    exports_of(request.source, request.types)
    if request.to is None and not request.destination_ids and not request.keep:
        code = organization.code
        request = replace(request, to=str((organization.stores.home / "exports" / code).absolute()))
    elif request.to is not None and "://" not in request.to:
        request = replace(request, to=str(Path(request.to).absolute()))
    targets_of(organization, request)
    return request


def _whole(stores: Stores, request: ExportRequest) -> ExportRequest:
    """A request with what the settings say that decides names: every attempt has the same."""
    return replace(request, file_bytes=request.file_bytes or stores.settings.export_file_bytes)


def cancel_export(organization: Organization, id: str, author: str | None = None) -> Job:
    """End a job that waits or whose executor is dead, or have the one who works on it stop.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended.
    """
    cancel_job(organization, id, EXPORT_JOBS, author)
    return organization.state.jobs.find(organization.id, id, KIND)


def retry_export(organization: Organization, id: str, author: str | None = None) -> Job:
    """Have a job that failed, or was cancelled, run once more.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has not failed, or what it is to read has gone since.
    """
    job = organization.state.jobs.find(organization.id, id, KIND)
    if job.status in AGAIN and not _is_staged(_folder(organization.stores, job)):
        _expect_snapshot(organization.stores, job)
    found = organization.state.jobs.retry(organization.id, id, KIND)
    if author is not None:
        note_run_act(organization, author, job, ActAction.RUN_AGAIN)
    return found


def run_export(stores: Stores, job_id: str) -> Exported:
    """Run the job of an export to its end, also one whose executor died; a complete one is read.

    It writes the same objects with the same bytes as an interrupted attempt would have.

    Raises:
        MeterlakeError: As `run_job` does.
    """
    return _run(stores, job_id, run_job)


def _run(
    stores: Stores, job_id: str, run: Callable[[Stores, JobSpec[Exported], str], Exported]
) -> Exported:
    job = stores.state.jobs.get(job_id)
    if job.kind == KIND and job.status is JobStatus.COMPLETE:
        # A complete export, from where its manifest still is.
        shutil.rmtree(_folder(stores, job), ignore_errors=True)
        request = ExportRequest.from_wire(job.parameters)
        places = tuple(Delivered.from_wire(each) for each in job.result.get("places", ()))
        download = job.result.get("download")
        manifest: dict[str, Any] = {**job.result, "files": []}
        targets = targets_of(stores.organization(job.org_id), request, job.created)
        for target, place in zip(targets, places, strict=False):
            manifest = wire.loads(
                target.objects.get(place.manifest_url.removeprefix(f"{place.url}/"))
            )
            return Exported(job.id, manifest, places, download)
        with suppress(NotFound):  # What is kept for downloads goes after a day.
            manifest = wire.loads(stores.objects.get(kept_manifest(job)))
        return Exported(job.id, manifest, places, download)
    return run(stores, EXPORT_JOBS, job_id)


def _pin(stores: Stores, job: Job) -> JobPins:
    request = _whole(stores, ExportRequest.from_wire(job.parameters))
    return JobPins(stores.lake(job.org_id).snapshot(), request.to_wire())


@contextmanager
def _hold(run: JobRun[Exported]) -> Iterator[None]:
    """The staging folder; it goes with an export that is complete."""
    folder = _folder(run.stores, run.job)
    with _alone(folder), _tidy_after(run, folder):
        yield
        shutil.rmtree(folder)


def _export(run: JobRun[Exported]) -> Exported:
    """Stage the files as often as the settings allow while the world fails; then deliver them."""
    stores, attempt, job = run.stores, run.attempt, run.job
    folder, request = _folder(stores, job), ExportRequest.from_wire(job.parameters)
    for trial in export_patience(stores, attempt):
        with trial:
            if not _is_staged(folder):
                _stage(stores, attempt, folder)
    manifest: dict[str, Any] = wire.loads((folder / _MANIFEST).read_bytes())
    attempt.tell(phase="delivering", files=len(manifest["files"]), rows=manifest["rows"])
    attempt.go_on()
    openers = openers_of(stores.organization(job.org_id), request, job.created)
    targets, places = _deliver_everywhere(stores, attempt, openers, manifest, folder)
    download = keep_for_download(stores, job, manifest, folder) if request.keep else None
    mark_step("export.kept")
    attempt.go_on()
    attempt.tell(phase="done")
    if targets:
        manifest = for_order(manifest, targets[0].order)
    exported = Exported(job.id, manifest, places, download)
    job.result = {
        "manifest": exported.manifest_url,
        "rows": exported.rows,
        "bytes": exported.manifest["bytes"],
        "files": len(exported.manifest["files"]),
        "places": [place.to_wire() for place in exported.places],
        "download": exported.download,
    }
    return exported


@contextmanager
def _tidy_after(run: JobRun[Exported], folder: Path) -> Iterator[None]:
    """Where the body ends the job without a result: no parts of objects stay, nor half of its files.

    Files that are staged completely stay for a retry. Something of them may have been put, and
    bills, which are read as they are, would be others the next time.
    """
    try:
        yield
    except BaseException as error:
        if run.status_after(error) is None and not isinstance(error, Unavailable):
            raise  # Another attempt goes on with all that is there.
        staged = _is_staged(folder)
        if staged:
            # Throw away the parts of objects wherever the job may have put some.
            request = ExportRequest.from_wire(run.attempt.job.parameters)
            manifest = wire.loads((folder / _MANIFEST).read_bytes())
            for opened in openers_of(
                run.stores.organization(run.attempt.job.org_id), request, run.attempt.job.created
            ):
                with suppress(MeterlakeError):  # A destination may be gone.
                    target = opened()
                    if may_be_delivered(run.attempt, target):
                        clear_parts(run.attempt, target, manifest)
        if not staged or isinstance(error, Altered) or not isinstance(error, MeterlakeError):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _is_staged(folder: Path) -> bool:
    return (folder / _MANIFEST).exists()


def _deliver_everywhere(
    stores: Stores,
    attempt: Attempt,
    openers: Sequence[Callable[[], Target]],
    manifest: dict[str, Any],
    folder: Path,
) -> tuple[list[Target], tuple[Delivered, ...]]:
    """Put the files everywhere; where one place fails, the others get theirs all the same.

    Raises:
        MeterlakeError: What the first place said that failed.
    """
    targets: list[Target] = []
    places: list[Delivered] = []
    failed: list[MeterlakeError] = []
    for opened in openers:
        attempt.go_on()  # A place that failed may have taken long.
        try:
            targets.append(opened())
            places.append(deliver(stores, attempt, targets[-1], manifest, folder))
        except (Altered, Busy, Cancelled, StaleVersion):
            raise  # It is about the job, not about the place.
        except MeterlakeError as error:
            failed.append(error)
    if failed:
        raise failed[0]
    return targets, tuple(places)


def _stage(stores: Stores, attempt: Attempt, folder: Path) -> None:
    """Write all files, and the manifest when they are there."""
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left)
        elif left.name != ".lock":
            left.unlink()
    job, request = attempt.job, ExportRequest.from_wire(attempt.job.parameters)
    assert job.snapshot is not None
    _expect_snapshot(stores, job)
    staging = ExportStaging.of(stores, attempt, folder)
    attempt.tell(phase="writing")
    exports, runner = exports_of(request.source, request.types), runner_of(stores)
    if runner is not None:
        files = spread_files(staging, exports, runner)
    elif request.source is Source.USAGE:
        files = []
        for export in exports:
            files += stage_usage(staging, export)
    else:
        files = list(stage_operational(staging, exports))
    with write_durably(folder / _MANIFEST) as path:
        path.write_bytes(encode_manifest(manifest_of(staging, job, request, files)))
    mark_step("export.staged")


def _expect_snapshot(stores: Stores, job: Job) -> None:
    """Check that what a job is to read is there: old snapshots expire, unless something pins them.

    Raises:
        Conflict: It is not.
    """
    of_lake = ExportRequest.from_wire(job.parameters).source is Source.USAGE
    if not of_lake or job.snapshot is None:
        return
    with stores.lake(job.org_id).reader() as connection:
        there = has_snapshot(connection, job.snapshot)
    if not there:
        raise Conflict(
            f"the export {job.id} reads the snapshot {job.snapshot} of the lake, which has expired:"
            " ask for it anew"
        )


def _folder(stores: Stores, job: Job) -> Path:
    return export_folder(stores, job.id)


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """The staging folder, for one process at a time; the system frees it when that one dies."""
    make_folder(folder)
    with hold_lock(
        folder / ".lock", Busy("export", f"another process writes {folder.name}; try again later")
    ):
        yield folder


def describe_export(stores: Stores, job: Job) -> str:
    """How people know a job: the name of its schedule, or what is exported."""
    if job.schedule_id is not None:
        with suppress(NotFound), stores.state.reading(job.org_id) as reader:
            return reader.get(ExportSchedule, job.schedule_id).entity.name
    return f"{job.parameters['source']} as {job.parameters['format']}"


def _may_begin(stores: Stores, job: Job) -> bool:
    """None begins while exports are switched off; those that have begun are finished."""
    if job.status is not JobStatus.PENDING:
        return True
    with stores.state.reading(job.org_id) as reader:
        return exports_enabled(reader)


EXPORT_JOBS: Final = JobSpec(
    kinds=(KIND,),
    name="export",
    work=_export,
    flow="export:export_job",
    pin=_pin,
    lacks=missing_here,
    hold=_hold,
    note_event=note_failure_event,
    # What fails is mostly a destination, and only this job needs it.
    when_unavailable=WhenUnavailable(tries=3, pause=timedelta(minutes=1)),
    is_due=_may_begin,
    describe=describe_export,
    taken=lambda: mark_step("export.taken"),
    finished=lambda: mark_step("export.finished"),
)
