"""The jobs of files: what every kind of them needs, whether it takes a file in or makes one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Connection

from meterlake.model.errors import NotFound, TooManyJobs
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.events.incidents import AUTHOR, report_no_file
from meterlake.pipeline.jobs.attempt import Attempt
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import disk
from meterlake.stores.files.incoming import Ticket, ticket_path
from meterlake.stores.objects import SignedPut
from meterlake.stores.state import Job, JobStatus, Transaction
from meterlake.stores.state.ingest.uploads import Upload, unfinished_files
from meterlake.stores.state.jobs import finish_job

NEVER_USED: Final = "NotUploaded"
WRONG_LENGTH: Final = "WrongLength"
GONE: Final = "FileGone"
ALL_REJECTED: Final = "AllRowsRejected"
_BLOCK: Final = 1 << 20
# Of one organization; each is a row that every look of the worker reads.
UNFINISHED_MAX: Final = 10_000
_RETRY_S: Final = 60


def key(upload: Upload) -> str:
    """The key of a job's file in the object store."""
    return f"uploads/{upload.org_id}/{upload.id}"


def expect_file(
    organization: Organization, author: str, request: Any, kind: JobKind = JobKind.UPLOAD
) -> Upload:
    """The job of a file that will come.

    Args:
        organization: The organization.
        author: Who announces the file.
        request: Its name, content type and length.
        kind: What the file is for.
    """
    now = organization.now()
    job = Job(
        id=str(uuid4()),
        org_id=organization.id,
        kind=kind,
        created=now,
        status=JobStatus.AWAITING_FILE,
        author=author,
    )
    return Upload(
        job,
        name=request.file_name,
        content_type=str(request.content_type),
        content_length=request.content_length,
        start_until=now + timedelta(seconds=organization.settings.upload_seconds),
    )


def refuse_too_much(transaction: Transaction, stores: Stores, more_bytes: int) -> None:
    """Refuse another file while as much as may be waits; nobody else counts meanwhile.

    Raises:
        TooManyJobs: As many files, or as many bytes, as may be are announced or wait.
    """
    count, waiting = unfinished_files(transaction.connection, transaction.org_id)
    if count >= UNFINISHED_MAX:
        raise TooManyJobs("files", UNFINISHED_MAX, _RETRY_S)
    most = stores.settings.upload_waiting_bytes
    if count and waiting + more_bytes > most:
        raise TooManyJobs("bytes of files", most, _RETRY_S)


def file_to_make(transaction: Transaction, name: str = "", content_type: str = "") -> Upload:
    """The job of a file of a lookup table that we write; it can run at once."""
    now = transaction.now
    job = Job(
        id=transaction.new_id(),
        org_id=transaction.org_id,
        kind=JobKind.LOOKUP,
        created=now,
        author=transaction.author,
    )
    return Upload(
        job,
        name=name,
        content_type=content_type,
        content_length=0,
        start_until=now,
        arrived=now,
    )


def signed_url(stores: Stores, upload: Upload, base_url: str) -> SignedPut:
    """The URL that takes a file: the object store's own, or ours.

    Raises:
        Invalid: The object store cannot sign.
        Unavailable: The home's key cannot be reached.
    """
    signed = stores.objects.signed_put(
        key(upload),
        upload.content_length,
        upload.content_type,
        stores.settings.upload_seconds,
    )
    return signed or _own_url(stores, upload, base_url)


def _own_url(stores: Stores, upload: Upload, base_url: str) -> SignedPut:
    ticket = Ticket(
        upload.org_id, upload.id, upload.content_length, upload.content_type, upload.start_until
    )
    headers = {
        "Content-Length": str(upload.content_length),
        "Content-Type": upload.content_type,
    }
    return SignedPut(base_url + ticket_path(stores.secrets, ticket), headers)


def failure(reason: str, detail: str) -> dict[str, Any]:
    """How a job ended that failed."""
    return {"failureReason": f"{reason}: {detail}"}


def remove_files(stores: Stores, uploads: Iterable[Upload]) -> None:
    """Remove the files of jobs that are forgotten."""
    for upload in uploads:
        stores.objects.delete(key(upload))


@dataclass(frozen=True, slots=True)
class Work:
    """One attempt at the job of a file.

    Attributes:
        upload: The file; its job is that of the attempt.
        folder: Its own; what is left there vanishes with the attempt.
        attempt: Renews its lease meanwhile.
    """

    stores: Stores
    upload: Upload
    folder: Path
    attempt: Attempt

    def go_on(self, *_: int) -> None:
        """To be called now and then, with anything: the attempt goes on if the job is still its own.

        Raises:
            StaleVersion: Another attempt took the job over, or it is forgotten.
        """
        self.attempt.check()

    def file(self) -> Path | None:
        """The job's file as a file of this machine.

        Without it the job has failed, and None is the answer.
        """
        objects = self.stores.objects
        try:
            objects.head(key(self.upload))
            return objects.path(key(self.upload)) or self._fetch()
        except NotFound as error:
            with self.stores.state.transaction(self.upload.org_id, AUTHOR) as transaction:
                self.finish_in(transaction.connection, JobStatus.FAILED, failure(GONE, str(error)))
                report_no_file(transaction, self.upload, str(error))
            return None

    def _fetch(self) -> Path:
        target = self.folder / "file"
        opened = self.stores.objects.open(key(self.upload))
        with opened as source, disk(), target.open("wb") as file:
            while block := source.read(_BLOCK):
                file.write(block)
                self.go_on()
        mark_step("uploads.fetched")
        return target

    def renew_in(self, connection: Connection) -> None:
        """Have the job for another while from the transaction on.

        Raises:
            StaleVersion: Another attempt took the job over, or it is forgotten.
        """
        self.upload.job.lease.renew(connection, self.stores.now())

    def finish(self, status: JobStatus, outcome: dict[str, Any]) -> None:
        """Write down how the job ended.

        Raises:
            StaleVersion: Another attempt took the job over.
        """
        with self.stores.state.writing_home() as connection:
            self.finish_in(connection, status, outcome)

    def finish_in(self, connection: Connection, status: JobStatus, outcome: dict[str, Any]) -> None:
        """Write it down together with what the job did."""
        self.upload.job.result = outcome
        finish_job(connection, self.upload.job, self.stores.now(), status=status)
