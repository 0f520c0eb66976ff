"""Uploads: a file is announced, comes through a signed URL, and its job does once what it is for.

The file is the truth: it is there as a whole or not at all, and a job whose file is there is run,
whoever noticed it: the process that took the file in, or the worker that looked.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from meterlake.model.errors import Busy, Invalid, NotFound, UnreadableMapping, UnreadableSource
from meterlake.model.measurements.receipt import Delivery, Receipt, UploadRequest
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.plurals import counted
from meterlake.model.values.problems import read
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.events.incidents import AUTHOR, report_no_file
from meterlake.pipeline.ingest.files import claimed_by
from meterlake.pipeline.ingest.reader_crashes import reading_alone, refuse_killer
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.jobs.file_jobs import (
    ALL_REJECTED,
    NEVER_USED,
    WRONG_LENGTH,
    Work,
    expect_file,
    failure,
    key,
    refuse_too_much,
    signed_url,
)
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.jobs.run_job import JobRun, run_job
from meterlake.pipeline.jobs.waiting import JobOutcome, run_all_waiting, run_waiting
from meterlake.pipeline.lookups.files import run_lookup_job
from meterlake.stores import Organization, Stores
from meterlake.stores.downloads import Download
from meterlake.stores.files.durable import PRIVATE, make_folder
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.objects.local import LocalObjects
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.ingest import uploads as jobs
from meterlake.stores.state.ingest.uploads import Created, Upload

T = TypeVar("T")


def announce(
    organization: Organization, author: str, document: Mapping[str, Any], base_url: str
) -> Document:
    """Make a job for a file that will come, and the URL for it.

    Args:
        organization: The organization.
        author: Who announces it.
        document: The file's name, content type and length.
        base_url: Where whoever asks reaches this server.

    Raises:
        Invalid: The document breaks a rule, or the object store cannot sign.
        TooManyJobs: As many files, or as many bytes, as may be are announced or wait.
        Unavailable: State or the home's key cannot be reached.
    """
    request = read(UploadRequest, document)
    most = organization.settings.upload_bytes
    if request.content_length > most:
        raise Invalid("contentLength", request.content_length, f"it must be at most {most} bytes")
    upload = expect_file(organization, author, request)
    signed = signed_url(organization.stores, upload, base_url)
    with organization.transaction(author) as transaction:
        refuse_too_much(transaction, organization.stores, upload.content_length)
        jobs.add(transaction.connection, upload)
    return {"jobId": upload.id, "url": signed.url, "headers": signed.headers}


def list_jobs(organization: Organization, created: Created, page: Page) -> Document:
    """One page of jobs, the newest first."""
    with organization.state.reading_home() as connection:
        found, token = jobs.page(connection, organization.id, created, page)
    return envelope([upload_document(each) for each in found], token)


def get_job(organization: Organization, id: str) -> Document:
    """One job.

    Raises:
        NotFound: There is none.
    """
    return upload_document(_find_upload(organization, id))


def original(organization: Organization, id: str) -> Download:
    """The file of a job, for a link to it.

    Raises:
        NotFound: There is no such job, or its file never came.
    """
    upload = _find_upload(organization, id)
    if upload.arrived is None:
        raise NotFound(
            "file of upload job",
            id,
            f": the job is {upload.status}; send the file to its upload URL",
        )
    return Download(key(upload), upload.name, upload.content_type)


def upload_document(upload: Upload) -> Document:
    """A job as the API shows it."""
    found = {
        "id": upload.id,
        "version": upload.job.version,
        "fileName": upload.name,
        "contentType": upload.content_type,
        "contentLength": upload.content_length,
        "status": upload.status.value,
        "dtCreated": upload.job.created,
        "createdBy": upload.author,
        "uploadDate": upload.arrived,
        "dtFinished": upload.job.finished,
        "failureReason": upload.job.error,
        **upload.job.result,
    }
    return {name: value for name, value in found.items() if value is not None}


def _find_upload(organization: Organization, id: str) -> Upload:
    with organization.state.reading_home() as connection:
        upload = jobs.find(connection, organization.id, id)
    if upload.job.kind != JobKind.UPLOAD:
        raise NotFound("upload job", id)
    return upload


def settle(organization: Organization) -> None:
    """Notice the files that are there, and give up the jobs whose files can come no more.

    Raises:
        Unavailable: State or the object store cannot be reached.
    """
    with organization.state.reading_home() as connection:
        awaiting = jobs.awaiting(connection, organization.id)
    for upload in awaiting:
        try:
            size = organization.stores.objects.head(key(upload)).size_bytes
        except NotFound:
            _give_up_if_late(organization.stores, upload)
        else:
            note_arrival(organization.stores, upload, size)


def note_arrival(
    stores: Stores, upload: Upload, size_bytes: int, sha256: str | None = None
) -> bool:
    """Note that a file is there; one of another length than announced fails its job.

    Returns:
        Whether the job goes on; False if it was given up before.
    """
    if size_bytes != upload.content_length:
        detail = f"{size_bytes} bytes came, {upload.content_length} were announced"
        _fail(stores, upload, WRONG_LENGTH, detail)
    with stores.state.writing_home() as connection:
        if size_bytes == upload.content_length:
            jobs.arrive(connection, upload.id, stores.now(), sha256)
        found = jobs.find(connection, upload.org_id, upload.id)
    mark_step("uploads.arrived")
    return found.arrived is not None


def _give_up_if_late(stores: Stores, upload: Upload) -> None:
    objects, late = stores.objects, stores.now() - upload.start_until
    if isinstance(objects, LocalObjects):
        # A file that began to come in time may take as long as it needs.
        if late > timedelta(0):
            with suppress(Busy), objects.writing(key(upload)):
                _give_up(stores, upload)
    elif late > timedelta(seconds=stores.settings.upload_arrival_seconds):
        _give_up(stores, upload)


def _give_up(stores: Stores, upload: Upload) -> None:
    with suppress(NotFound):
        stores.objects.head(key(upload))
        return  # It came at the last moment: the next look notices it.
    _fail(stores, upload, NEVER_USED, "no file came before the upload URL ended")
    mark_step("uploads.given_up")


def _fail(stores: Stores, upload: Upload, reason: str, detail: str) -> None:
    """Fail a job that waits for its file, and raise its alert; one that has ended stays as it is."""
    with stores.state.transaction(upload.org_id, AUTHOR) as transaction:
        outcome = failure(reason, detail)
        if jobs.give_up(transaction.connection, upload.id, transaction.now, outcome):
            report_no_file(transaction, upload, detail)


def run_upload(organization: Organization, job_id: str) -> Receipt | None:
    """Run the job of a file, if the file is there and nobody else does.

    Safe to repeat after a crash: the file is committed once, and whoever runs the job again ends
    it with the receipt of that one commit.

    Returns:
        What became of its measurements; None if its file is gone, or it is the job of a lookup
        table.

    Raises:
        NotFound: There is no such job.
        Busy: Another process runs it, or it is not due.
        StaleVersion: Another attempt took it over meanwhile; the end of this one does not count.
        Unavailable: The disk, State, the lake or the object store failed; worth another try.
    """
    as_it_stands(organization, job_id)
    return run_job(organization.stores, ARRIVALS, job_id)


@contextmanager
def _alone(run: JobRun[Receipt | None]) -> Iterator[None]:
    """A folder for the work at a job, which one process of a home has at a time.

    The lease in State keeps other homes away, and tells who of them is dead; the lock keeps one
    that was silent for too long from meeting its successor in the folders that they share.
    """
    folder = _workplace(run.stores, run.job)
    make_folder(folder, PRIVATE)
    with hold_lock(
        folder / "lock", Busy("upload job", f"another process runs {run.job.id}; try again later")
    ):
        try:
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _alone_if_it_kills(stores: Stores, job: Job) -> AbstractContextManager[None]:
    """Run a job alone among those whose process died; before its lease, so that none dies of another."""
    if not job.has_died(stores.now()):
        return nullcontext()
    return reading_alone(stores.home, _describe(stores, job), died=True)


def _workplace(stores: Stores, job: Job) -> Path:
    return _workplaces(stores.organization(job.org_id)) / job.id


def _workplaces(organization: Organization) -> Path:
    return organization.stores.home / "uploads" / organization.id


def _sweep(organization: Organization) -> None:
    """Remove what processes left that died after they had ended their jobs."""
    # Folders first: whoever makes one now works at a job that is still running below.
    left = {path.name: path for path in _workplaces(organization).glob("*")}
    if not left:
        return
    with organization.state.reading_home() as connection:
        unfinished = jobs.unfinished_uploads(connection, organization.id)
    for name in left.keys() - {each.id for each in unfinished}:
        shutil.rmtree(left[name], ignore_errors=True)


def _take_in(run: JobRun[Receipt | None]) -> Receipt | None:
    """Do with a file that came what it is for."""
    stores, job = run.stores, run.job
    upload = replace(as_it_stands(stores.organization(job.org_id), job.id), job=job)
    work = Work(stores, upload, _workplace(stores, job), run.attempt)
    if job.kind == JobKind.UPLOAD:
        return _ingest(work)
    try:
        refuse_killer(work.upload.name, work.upload.job.deaths)
        run_lookup_job(work)
    except UnreadableSource as error:
        work.finish(JobStatus.FAILED, failure(error.reason, error.detail))
    return None


def _ingest(work: Work) -> Receipt | None:
    upload, path = work.upload, work.file()
    if path is None:
        return None
    assert upload.arrived is not None
    deaths = upload.job.deaths
    delivery = Delivery(upload.id, upload.name, upload.arrived, deaths=deaths)
    organization = work.stores.organization(upload.org_id)
    try:
        mapping = claimed_by(organization, upload.name)
    except UnreadableMapping as error:
        work.finish(JobStatus.FAILED, failure("UnreadableMapping", str(error)))
        return None
    receipt = ingest_file(organization, path, delivery, mapping, work.go_on)
    mark_step("uploads.ingested")
    if receipt.status != "done":
        why = failure(str(receipt.reason), receipt.detail or "")
        work.finish(JobStatus.FAILED, _counts(receipt) | why)
    elif receipt.received and receipt.rejected == receipt.received:
        # Whoever asks for nothing but the status would believe that it was counted.
        # Why all rows of a file were rejected, the most frequent reason first.
        listed = sorted(receipt.reasons.items(), key=lambda item: (-item[1], item[0]))
        counts = ", ".join(f"{reason} {count:,}" for reason, count in listed)
        reasons = f"none of {counted(receipt.received, 'row')} came in ({counts})"
        work.finish(JobStatus.FAILED, _counts(receipt) | failure(ALL_REJECTED, reasons))
    else:
        work.finish(JobStatus.COMPLETE, _counts(receipt))
    return receipt


def _counts(receipt: Receipt) -> dict[str, Any]:
    return {
        "totalRows": receipt.received,
        "processedRows": receipt.accepted + receipt.repeats,
        "repeatedRows": receipt.repeats,
        "failedRows": receipt.rejected,
        "failureReasons": {str(reason): count for reason, count in receipt.reasons.items()},
        "sha256": receipt.sha256,
    }


def ingest_uploads(
    organization: Organization, stop: Callable[[], bool] = lambda: False
) -> Iterator[Receipt]:
    """Run the jobs of an organization whose files are there, the oldest first.

    Args:
        organization: The organization.
        stop: Asked between two jobs.

    Raises:
        Unavailable: The disk, State, the lake or the object store failed.
    """
    failed: Exception | None = None
    for each in run_all_waiting(organization, ARRIVALS, stop):
        failed = failed or each.error  # The others do not wait for this one.
        if each.result is not None:
            yield each.result
    if failed is not None:
        raise failed


def run_each_upload(
    organization: Organization,
    run: Callable[[str, str], T],
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[JobOutcome[T]]:
    """Run the jobs whose files are there in a way of your own, each once, the oldest first.

    Args:
        organization: The organization.
        run: Gets the id of a job and the name of its file.
        stop: Asked between two jobs.
    """

    def run_one(job: Job) -> T:
        return run(job.id, _describe(organization.stores, job))

    return run_waiting(organization.stores, partial(_find, organization), run_one, stop)


def waiting(organization: Organization) -> list[Upload]:
    """The jobs of an organization whose files are there and that nobody works on, oldest first.

    Raises:
        Unavailable: State or the object store cannot be reached.
    """
    settle(organization)
    _sweep(organization)
    with organization.state.reading_home() as connection:
        return jobs.due(connection, organization.id, organization.now())


def as_it_stands(organization: Organization, id: str) -> Upload:
    """A job as State has it now.

    Raises:
        NotFound: It is forgotten.
    """
    with organization.state.reading_home() as connection:
        return jobs.find(connection, organization.id, id)


def _find(organization: Organization) -> list[Job]:
    return [each.job for each in waiting(organization)]


def _describe(stores: Stores, job: Job) -> str:
    return as_it_stands(stores.organization(job.org_id), job.id).name


# A file that came, for measurements or for a lookup table: one turn takes all in the order in
# which they came, whatever they hold.
ARRIVALS: Final = JobSpec(
    kinds=(JobKind.UPLOAD, JobKind.LOOKUP),
    name="file",
    work=_take_in,
    flow="upload",
    batch="files",
    turn=_alone_if_it_kills,
    hold=_alone,
    # Who sent it is not there to send it again: what is ours to mend is mended, and it comes in.
    waits_after_errors=True,
    find=_find,
    describe=_describe,
    taken=lambda: mark_step("uploads.taken"),
    finished=lambda: mark_step("uploads.finished"),
)
