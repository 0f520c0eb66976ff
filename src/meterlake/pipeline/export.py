"""The verb `export`: measurements, quantities, bills and configuration as files with a manifest.

An export is a job. It pins the snapshot of the lake and reads the configuration as it was when the
job was created. Its files are written to a staging folder first, then put under names that follow
from the job, the manifest last. Whoever runs the job again after a crash continues: files that are
staged completely are put as they are, so that every attempt puts the same bytes.
"""

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from meterlake.model import wire
from meterlake.model.catalog import Aggregation, Meter
from meterlake.model.errors import Busy, Conflict, Invalid, NotFound, StaleVersion, Unavailable
from meterlake.model.export_request import KIND, ExportRequest, Source
from meterlake.model.failpoint import reached
from meterlake.pipeline.export_attempt import Attempt, Cancelled, running
from meterlake.pipeline.export_delivery import (
    Delivered,
    deliver,
    for_order,
    kept,
    kept_manifest,
    printed,
    targets_of,
)
from meterlake.pipeline.export_failure import tell_failure
from meterlake.pipeline.export_operational import stage_operational
from meterlake.pipeline.export_staging import Staging
from meterlake.pipeline.export_usage import stage_usage
from meterlake.pipeline.version import code_version
from meterlake.stages.export.manifest import WrittenFile
from meterlake.stages.export.names import Place
from meterlake.stages.export.types import exports_of
from meterlake.stores import Stores
from meterlake.stores.durable import make_folder, written
from meterlake.stores.locks import held
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.jobs import Submitted, submit

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


def export(stores: Stores, org_id: str, request: ExportRequest, author: str = AUTHOR) -> Exported:
    """Export an organization's data as files, and a manifest that is written last.

    Raises:
        Invalid: A type, the target or its credentials are not right.
        NotFound: The bucket does not exist.
        Unavailable: A disk or a network failed, also after some tries; `run_export` can continue
            after `Jobs.retry`.
        Conflict: A worker took the job, and it failed or was cancelled there.
    """
    return finished(stores, submit_export(stores, org_id, request, author))


def finished(stores: Stores, job_id: str) -> Exported:
    """Run a job to its end, or wait for who was faster: a worker takes whatever it sees.

    Raises:
        Conflict: It failed there, or was cancelled.
    """
    while True:
        try:
            return run_export(stores, job_id)
        except Busy:
            job = stores.state.jobs.get(job_id)
            if job.status in {JobStatus.FAILED, JobStatus.CANCELLED}:
                raise Conflict(f"the export {job_id} is {job.status}: {job.error}") from None
            time.sleep(_LOOK_S)


def submit_export(stores: Stores, org_id: str, request: ExportRequest, author: str = AUTHOR) -> str:
    """Make the job of an export; whoever takes it runs it.

    Returns:
        The job's id.

    Raises:
        Invalid: A type or a target is not right.
        NotFound: There is no such destination.
    """
    exports_of(request.source, request.types)
    request = _placed(stores, org_id, request)
    targets_of(stores, org_id, request)
    with stores.state.transaction(org_id, author) as transaction:
        job = Submitted(
            id=transaction.new_id(),
            org_id=org_id,
            kind=KIND,
            parameters=request.to_wire(),
            created=transaction.now,
            author=author,
        )
        submit(transaction.connection, job)
    reached("export.submitted")
    return job.id


def _placed(stores: Stores, org_id: str, request: ExportRequest) -> ExportRequest:
    """A request that does not depend on where it is run; what goes nowhere goes into the home."""
    if request.to is None and not request.destination_ids and not request.keep:
        code = stores.state.organization(org_id).code
        return replace(request, to=str((stores.home / "exports" / code).absolute()))
    if request.to is not None and "://" not in request.to:
        return replace(request, to=str(Path(request.to).absolute()))
    return request


def run_export(stores: Stores, job_id: str) -> Exported:
    """Run the job of an export to its end, also one whose executor died; a complete one is read.

    It writes the same objects with the same bytes as an interrupted attempt would have.

    Raises:
        NotFound: There is no such job.
        Invalid: The job is no export.
        Busy: Somebody works on it, or it has ended without a result.
        Cancelled: It was cancelled.
        Unavailable: The world failed; the job has failed.
    """
    job = stores.state.jobs.get(job_id)
    if job.kind != KIND:
        raise Invalid("job", job_id, f"an export, not {job.kind}")
    if job.status is JobStatus.COMPLETE:
        return _complete(stores, job)
    job = stores.state.jobs.take(job_id, stores.lake(job.org_id).snapshot())
    reached("export.taken")
    with running(stores.state.jobs, job) as attempt:
        return _ended(stores, attempt)


def _ended(stores: Stores, attempt: Attempt) -> Exported:
    job = attempt.job
    try:
        with _alone(_folder(stores, job)) as folder:
            exported = _run(stores, attempt, folder)
            job.result = _result(exported)
            stores.state.jobs.finish(job)
            reached("export.finished")
            shutil.rmtree(folder)
    except Busy:
        stores.state.jobs.release(job)
        raise
    except Cancelled as error:
        stores.state.jobs.finish(job, error=str(error), status=JobStatus.CANCELLED)
        _discard(stores, job)
        raise
    except (KeyboardInterrupt, SystemExit):
        stores.state.jobs.release(job)  # The process ends; the job does not.
        raise
    except BaseException as error:
        with suppress(StaleVersion):  # another attempt has the job by now
            tell_failure(stores, job, error)
        if not isinstance(error, Unavailable):
            _discard(stores, job)
        raise
    return exported


def _discard(stores: Stores, job: Job) -> None:
    """Remove what is staged, unless another attempt works with it by now."""
    with suppress(Busy), _alone(_folder(stores, job)) as folder:
        shutil.rmtree(folder, ignore_errors=True)


def _run(stores: Stores, attempt: Attempt, folder: Path) -> Exported:
    job, request = attempt.job, ExportRequest.from_wire(attempt.job.parameters)
    if not (folder / _MANIFEST).exists():
        _stage(stores, attempt, folder)
    manifest: dict[str, Any] = wire.loads((folder / _MANIFEST).read_bytes())
    attempt.tell(phase="delivering", files=len(manifest["files"]), rows=manifest["rows"])
    targets = targets_of(stores, job.org_id, request)
    places = tuple(deliver(stores, attempt, each, manifest, folder) for each in targets)
    download = kept(stores, job, manifest, folder) if request.keep else None
    reached("export.kept")
    if targets:
        manifest = for_order(manifest, targets[0].order)
    return Exported(job.id, manifest, places, download)


def _result(exported: Exported) -> dict[str, Any]:
    return {
        "manifest": exported.manifest_url,
        "rows": exported.rows,
        "bytes": exported.manifest["bytes"],
        "files": len(exported.manifest["files"]),
        "places": [place.to_wire() for place in exported.places],
        "download": exported.download,
    }


def _stage(stores: Stores, attempt: Attempt, folder: Path) -> None:
    """Write all files, and the manifest when they are there."""
    for left in folder.iterdir():
        if left.name != ".lock":
            left.unlink()
    job, request = attempt.job, ExportRequest.from_wire(attempt.job.parameters)
    assert job.snapshot is not None
    staging = Staging(
        stores=stores,
        place=Place(job.org_id, job.id, job.created),
        request=request,
        folder=folder,
        snapshot=job.snapshot,
        at=job.created,
        attempt=attempt,
    )
    attempt.tell(phase="writing")
    write = stage_usage if request.source is Source.USAGE else stage_operational
    exports = exports_of(request.source, request.types)
    files = [file for export in exports for file in write(staging, export)]
    with written(folder / _MANIFEST) as path:
        path.write_bytes(printed(_manifest(staging, job, request, files)))
    reached("export.staged")


def _manifest(
    staging: Staging, job: Job, request: ExportRequest, files: list[WrittenFile]
) -> dict[str, Any]:
    period = staging.period
    return {
        "jobId": job.id,
        "orgId": job.org_id,
        "organization": staging.stores.state.organization(job.org_id).code,
        "source": request.source.value,
        "format": request.format.value,
        "created": job.created,
        "period": None if period is None else {"start": period.start, "end": period.end},
        "snapshot": staging.snapshot,
        "configurationTime": staging.at,
        "changesSince": request.changes_since,
        "spreadsheet": request.spreadsheet,
        "versions": _versions(staging, request.source),
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
        "files": [file.to_wire() for file in files],
    }


def _versions(staging: Staging, source: Source) -> dict[str, Any]:
    """What the rows do not say themselves: of configuration, every row carries its version."""
    versions: dict[str, Any] = {"meterlake": code_version()}
    if source is Source.USAGE:
        for kind in (Meter, Aggregation):
            records = sorted(staging.meters.all(kind), key=lambda record: record.id)
            versions[kind.__name__] = {record.id: record.version for record in records}
    return versions


def _complete(stores: Stores, job: Job) -> Exported:
    """A complete export, from where its manifest still is."""
    shutil.rmtree(_folder(stores, job), ignore_errors=True)
    request = ExportRequest.from_wire(job.parameters)
    places = tuple(Delivered.from_wire(each) for each in job.result.get("places", ()))
    download = job.result.get("download")
    manifest: dict[str, Any] = {**job.result, "files": []}
    for target, place in zip(targets_of(stores, job.org_id, request), places, strict=False):
        manifest = wire.loads(target.objects.get(place.manifest_url.removeprefix(f"{place.url}/")))
        return Exported(job.id, manifest, places, download)
    with suppress(NotFound):  # What is kept for downloads goes after a day.
        manifest = wire.loads(stores.objects.get(kept_manifest(job)))
    return Exported(job.id, manifest, places, download)


def _folder(stores: Stores, job: Job) -> Path:
    return stores.home / "staging" / "exports" / job.id


@contextmanager
def _alone(folder: Path) -> Iterator[Path]:
    """The staging folder, for one process at a time; the system frees it when that one dies."""
    make_folder(folder)
    with held(folder / ".lock", Busy("export", f"another process writes {folder.name}")):
        yield folder
