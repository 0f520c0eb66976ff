"""The documents of many bills as one file, made by the worker: a job with progress, its file kept for a day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from meterlake.model.bills.document import AppendixDetail, BundleFormat
from meterlake.model.errors import Invalid, TooManyJobs
from meterlake.model.values.plurals import counted
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.documents.bundle import MEDIA_TYPES, bundle_name, make_bundle
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.jobs.run_job import JobRun
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.jobs import JobFilters, count_jobs, submit

KIND: Final = JobKind.BILL_DOCUMENTS
# Of one file: its documents are in memory together.
BILLS_MAX: Final = 5_000
KEPT: Final = timedelta(days=1)
_UNFINISHED_MAX: Final = 10
_RETRY_S: Final = 30
# Documents after which the job says how far it is.
_TOLD_EVERY: Final = 5
_OPEN: Final = (JobStatus.PENDING, JobStatus.RUNNING)
# Keys of files begin with their time: those that are over come first.
_TIME: Final = "%Y%m%dT%H%M%S"
_DONE: Final = "done"
_KEY: Final = "key"
_NAME: Final = "name"


@dataclass(frozen=True, slots=True)
class DocumentsJobView:
    """A job as the API shows it.

    Attributes:
        bill_ids: Whose documents it makes.
        download: The file; None while there is none, or when its day is over.
    """

    document: Document
    bill_ids: Sequence[str]
    download: Download | None


def submit_documents(
    organization: Organization,
    author: str,
    bill_ids: Sequence[str],
    format: BundleFormat,
    detail: AppendixDetail,
) -> DocumentsJobView:
    """Have the worker make the documents of bills, in this order.

    Raises:
        Invalid: There are too many bills.
        NotFound: One of them does not exist.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    ids = list(dict.fromkeys(bill_ids))
    if len(ids) > BILLS_MAX:
        rule = f"there may be at most {BILLS_MAX} in one file; choose fewer, and ask for the others again"
        raise Invalid("billIds", counted(len(ids), "bill"), rule)
    with organization.transaction(author) as transaction:
        filters = JobFilters(statuses=_OPEN)
        if count_jobs(transaction.connection, organization.id, KIND, filters) >= _UNFINISHED_MAX:
            raise TooManyJobs("jobs of documents", _UNFINISHED_MAX, _RETRY_S)
        for id_ in ids:
            bills.get(transaction, id_)
        job = Job(
            id=transaction.new_id(),
            org_id=organization.id,
            kind=KIND,
            parameters={
                "billIds": ids,
                "format": format.value,
                "usage": detail.value,
                _NAME: bundle_name(transaction, ids, format),
            },
            created=transaction.now,
            author=author,
        )
        submit(transaction.connection, job)
    return _view(organization, job)


def get_documents_job(organization: Organization, id: str) -> DocumentsJobView:
    """A job of documents.

    Raises:
        NotFound: The organization has no such job.
    """
    return _view(organization, organization.state.jobs.find(organization.id, id, KIND))


def _view(organization: Organization, job: Job) -> DocumentsJobView:
    ids, format_ = job.parameters["billIds"], BundleFormat(job.parameters["format"])
    complete = job.status is JobStatus.COMPLETE
    expires = job.finished + KEPT if complete and job.finished else None
    is_kept = expires is not None and organization.now() < expires
    found = {
        "id": job.id,
        "status": job.status.value,
        "format": format_.value,
        "bills": len(ids),
        "done": len(ids) if complete else int(job.progress.get(_DONE, 0)),
        "error": job.error,
        "createdBy": job.author,
        "dtCreated": job.created,
        "dtExpires": expires,
    }
    # A job of a former version has no name.
    name = job.parameters.get(_NAME, f"bills.{format_}")
    file = Download(job.result[_KEY], name, MEDIA_TYPES[format_]) if is_kept else None
    shown = {name: value for name, value in found.items() if value is not None}
    return DocumentsJobView(shown, ids, file)


# --- What the worker does -----------------------------------------------------------------------


def _make(run: JobRun[None]) -> None:
    """Make the file, and remove those whose day is over."""
    job = run.job
    organization = run.stores.organization(job.org_id)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        run.attempt.tell(**{_DONE: done})
        if done % _TOLD_EVERY == 0:
            # Who waits sees it now, not when the lease is renewed anyway.
            run.attempt.go_on()
        run.check()

    made = make_bundle(
        organization,
        job.parameters["billIds"],
        BundleFormat(job.parameters["format"]),
        AppendixDetail(job.parameters["usage"]),
        tell=count,
    )
    folder, now = f"documents/{organization.id}/", organization.now()
    _remove_ended(organization, folder, now)
    # The attempt has a key of its own: one that lost its lease overwrites nothing.
    key = f"{folder}{now:{_TIME}}-{job.id}-{job.attempt}.{job.parameters['format']}"
    organization.stores.objects.put_bytes(key, made.data)
    job.result = {_KEY: key}


def _remove_ended(organization: Organization, folder: str, now: datetime) -> None:
    # A download that began in the last second goes on.
    ended = now - KEPT - timedelta(hours=1)
    for info in list(organization.stores.objects.list(folder)):
        if info.key.removeprefix(folder) >= f"{ended:{_TIME}}":
            return
        organization.stores.objects.delete(info.key)


def _describe(_: Any, job: Job) -> str:
    return f"documents of {counted(len(job.parameters['billIds']), 'bill')}"


BILL_DOCUMENTS: Final = JobSpec(
    kinds=(KIND,), name="job of documents", work=_make, describe=_describe
)
