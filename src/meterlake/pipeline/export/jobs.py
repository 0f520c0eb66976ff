"""Exports that are asked for over the API: their jobs, and the download of what they wrote."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from typing import Any, Final

from meterlake.model.configuration.exports import AdHocExport, SourceType
from meterlake.model.errors import Conflict, Invalid, NotFound, TooManyJobs
from meterlake.model.rules.exports import check_ad_hoc
from meterlake.model.values.period import format_instant
from meterlake.model.values.problems import read
from meterlake.model.work.export_request import KIND, ExportRequest
from meterlake.pipeline.config.entities import envelope
from meterlake.pipeline.config.schedule_jobs import export_request
from meterlake.pipeline.explorer.usage_questions import check_ids
from meterlake.pipeline.export.run import cancel_export, retry_export, submit_export
from meterlake.pipeline.jobs.attempt import Cancelled
from meterlake.stages.export.exported_columns import Export, exports_of
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.jobs import JobFilters, count_jobs

# How long what was exported can be downloaded, from the end of its job.
KEPT: Final = timedelta(hours=24)
# Of one organization; another one of that many would begin days later.
UNFINISHED_MAX: Final = 1_000
_RETRY_S: Final = 60
_STATUSES: Final = {
    "PENDING": (JobStatus.PENDING,),
    "RUNNING": (JobStatus.RUNNING,),
    "SUCCEEDED": (JobStatus.COMPLETE,),
    "FAILED": (JobStatus.FAILED, JobStatus.CANCELLED),
}
_WIRE: Final = {status: name for name, statuses in _STATUSES.items() for status in statuses}
# How a job ended; one that failed and one that was cancelled have one `status`.
_OUTCOMES: Final = {
    JobStatus.COMPLETE: "SUCCEEDED",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLED: "CANCELLED",
}
_WANTED: Final = {**_STATUSES, "CANCELLED": (JobStatus.CANCELLED,)}
_MEDIA: Final = {".zip": "application/zip", ".gz": "application/gzip"}


@dataclass(frozen=True, slots=True)
class ExportJobFilter:
    """Which jobs are listed, in the words of the wire."""

    ids: tuple[str, ...] = ()
    schedule_id: str | None = None
    status: str | None = None
    start: datetime | None = None
    end: datetime | None = None


def trigger(organization: Organization, author: str, document: Any) -> dict[str, Any]:
    """Make the job of an export that is asked for once.

    Raises:
        Invalid: A field or a rule is broken; a meter, an account or a destination does not exist.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    asked = read(AdHocExport, document)
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        if asked.source_type is SourceType.USAGE:
            check_ids(asked, reader, configuration)
        check_ad_hoc(asked, configuration, organization.now())
        open_ = JobFilters(statuses=(JobStatus.PENDING, JobStatus.RUNNING))
        if count_jobs(reader.connection, organization.id, KIND, open_) >= UNFINISHED_MAX:
            raise TooManyJobs("export jobs", UNFINISHED_MAX, _RETRY_S)
    request = export_request(asked, asked.start_date, asked.end_date)
    return {"jobId": submit_export(organization, request, author)}


def list_jobs(organization: Organization, filters: ExportJobFilter, page: Page) -> dict[str, Any]:
    """One page of the jobs of exports, the newest first.

    Raises:
        Invalid: The status is none, or the token is none that a list gave.
    """
    if filters.status is not None and filters.status not in _WANTED:
        raise Invalid("status", filters.status, f"it must be one of {', '.join(_WANTED)}")
    wanted = JobFilters(
        ids=filters.ids,
        schedule_id=filters.schedule_id,
        statuses=_WANTED[filters.status] if filters.status else (),
        start=filters.start,
        end=filters.end,
    )
    found, token = organization.state.jobs.page(organization.id, KIND, wanted, page)
    return envelope([job_document(job) for job in found], token)


def get_job(organization: Organization, id: str) -> dict[str, Any]:
    """One job.

    Raises:
        NotFound: The organization has no such job.
    """
    return job_document(organization.state.jobs.find(organization.id, id, KIND))


def cancel(organization: Organization, id: str, author: str | None = None) -> dict[str, Any]:
    """End a job that waits, or have the one that runs stop.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended.
    """
    return job_document(cancel_export(organization, id, author))


def retry(organization: Organization, id: str, author: str | None = None) -> dict[str, Any]:
    """Have a job that failed, or was cancelled, run once more.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has not failed, or what it is to read has gone since.
    """
    return job_document(retry_export(organization, id, author))


def download(organization: Organization, id: str) -> tuple[Download, datetime]:
    """The file of a job, for a day after its end, and the instant at which that day is over.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has not ended well, nothing was kept, or it ended too long ago.
    """
    job = organization.state.jobs.find(organization.id, id, KIND)
    if job.status is not JobStatus.COMPLETE or job.finished is None:
        raise Conflict(
            f"the job {id} has nothing to download: it is {_WIRE[job.status]};"
            " wait until it has succeeded, or export again"
        )
    key = job.result.get("download")
    if key is None:
        raise Conflict(
            f"the files of the job {id} are only where it put them;"
            " read them at its destination, or export again without one"
        )
    ends = job.finished + KEPT
    if organization.now() >= ends:
        hours = int(KEPT.total_seconds() // 3600)
        raise Conflict(
            f"the files of the job {id} were kept for {hours} hours after its end; export again"
        )
    path = PurePosixPath(key)
    try:
        organization.stores.objects.head(key)
    except NotFound:  # It names the store's own path.
        raise NotFound("file", path.name, " any more; export again") from None
    media = _MEDIA.get(path.suffix, "application/octet-stream")
    return Download(key, path.name, media), ends


def exports_of_job(organization: Organization, id: str) -> tuple[Export, ...]:
    """What a job exports.

    Raises:
        NotFound: There is none of that id.
    """
    request = ExportRequest.from_wire(
        organization.state.jobs.find(organization.id, id, KIND).parameters
    )
    return exports_of(request.source, request.types)


def job_document(job: Job) -> dict[str, Any]:
    """A job as the wire shows it; what it is doing, and how it ended, is our own."""
    request = ExportRequest.from_wire(job.parameters)
    # Of one that waits to be run again, the last attempt's do not count.
    began = job.status is not JobStatus.PENDING
    error = str(Cancelled(job.kind, job.id)) if job.status is JobStatus.CANCELLED else None
    told = {
        "id": job.id,
        "version": job.version,
        "sourceType": request.source.value.upper(),
        "scheduleId": job.schedule_id,
        "status": _WIRE[job.status],
        "outcome": _OUTCOMES.get(job.status),
        "dateCreated": format_instant(job.created),
        "createdBy": job.author,
        **_asked_for(request),
        "startedAt": job.started and format_instant(job.started) if began else None,
        "finishedAt": job.finished and format_instant(job.finished),
        "scheduledFor": job.due and format_instant(job.due),
        "error": job.error or error,
        "progress": job.progress or None,
        "result": job.result or None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _asked_for(request: ExportRequest) -> dict[str, Any]:
    """What an export was asked for; nothing for all of it."""
    usage, period = request.usage, request.period
    return {
        "exportFileFormat": request.format.value.upper(),
        "month": None if request.month is None else str(request.month),
        "startDate": period and format_instant(period.start),
        "endDate": period and format_instant(period.end),
        "meterIds": list(usage.meter_ids) or None,
        "accountIds": list(usage.account_ids) or None,
        "dataTypes": list(request.types) or None,
    }


def forget_downloads(organization: Organization) -> int:
    """Remove the files of jobs whose downloads are over; the number of files.

    Raises:
        Unavailable: The object store failed.
    """
    removed = 0
    kept: dict[str, bool] = {}
    for info in list(organization.stores.objects.list(f"exports/{organization.id}/")):
        job_id = info.key.split("/")[2]
        if job_id not in kept:
            # Whether its files may still be asked for; of one that runs they may.
            try:
                job = organization.state.jobs.find(organization.id, job_id, KIND)
            except NotFound:
                kept[job_id] = False
            else:
                kept[job_id] = job.finished is None or organization.now() < job.finished + KEPT
        if not kept[job_id]:
            organization.stores.objects.delete(info.key)
            removed += 1
    return removed
