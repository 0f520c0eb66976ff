"""The jobs of files: what every kind of them needs, whether it takes a file in or makes one."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection

from meterlake.model.errors import NotFound
from meterlake.model.failpoint import reached
from meterlake.model.uploads import JobKind, UploadStatus
from meterlake.pipeline.events.incidents import AUTHOR
from meterlake.pipeline.events.upload_alerts import tell_no_file
from meterlake.stores import Stores
from meterlake.stores.files.durable import disk
from meterlake.stores.files.incoming import Ticket, ticket_path
from meterlake.stores.objects import SignedPut
from meterlake.stores.state import Transaction
from meterlake.stores.state.ingest import uploads as jobs
from meterlake.stores.state.ingest.uploads import LEASE, Upload

NEVER_USED: Final = "NotUploaded"
WRONG_LENGTH: Final = "WrongLength"
GONE: Final = "FileGone"
_BLOCK: Final = 1 << 20


def key(upload: Upload) -> str:
    """The key of a job's file in the object store."""
    return f"uploads/{upload.org_id}/{upload.id}"


def expected(stores: Stores, id: str, org_id: str, author: str, request: Any) -> Upload:
    """The job of a file that will come.

    Args:
        stores: The home's stores.
        id: The job's id.
        org_id: The organization.
        author: Who announces the file.
        request: Its name, content type and length.
    """
    now = stores.now()
    return Upload(
        id=id,
        org_id=org_id,
        name=request.file_name,
        content_type=str(request.content_type),
        content_length=request.content_length,
        created=now,
        created_by=author,
        start_until=now + timedelta(seconds=stores.settings.upload_seconds),
    )


def to_be_made(transaction: Transaction, name: str = "", content_type: str = "") -> Upload:
    """The job of a file of a lookup table that we write; it can run at once."""
    now = transaction.now
    return Upload(
        id=transaction.new_id(),
        org_id=transaction.org_id,
        name=name,
        content_type=content_type,
        content_length=0,
        created=now,
        created_by=transaction.author,
        start_until=now,
        status=UploadStatus.RUNNING,
        arrived=now,
        kind=JobKind.LOOKUP,
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
    """One attempt at a job.

    Attributes:
        folder: Its own; what is left there vanishes with the attempt.
        alive: To be called now and then with anything: says that the attempt goes on.
    """

    stores: Stores
    upload: Upload
    folder: Path
    alive: "SignOfLife"

    def file(self) -> Path | None:
        """The job's file as a file of this machine.

        Without it the job has failed, and None is the answer.
        """
        objects = self.stores.objects
        try:
            objects.head(key(self.upload))
            return objects.path(key(self.upload)) or self._fetched()
        except NotFound as error:
            with self.stores.state.transaction(self.upload.org_id, AUTHOR) as transaction:
                self.finish_in(
                    transaction.connection, UploadStatus.FAILED, failure(GONE, str(error))
                )
                tell_no_file(transaction, self.upload, str(error))
            return None

    def _fetched(self) -> Path:
        target = self.folder / "file"
        opened = self.stores.objects.open(key(self.upload))
        with opened as source, disk(), target.open("wb") as file:
            while block := source.read(_BLOCK):
                file.write(block)
                self.alive(len(block))
        reached("uploads.fetched")
        return target

    def finish(self, status: UploadStatus, outcome: dict[str, Any]) -> None:
        """Write down how the job ended.

        Raises:
            StaleVersion: Another attempt took the job over.
        """
        with self.stores.state.writing_home() as connection:
            self.finish_in(connection, status, outcome)

    def finish_in(
        self, connection: Connection, status: UploadStatus, outcome: dict[str, Any]
    ) -> None:
        """Write it down together with what the job did."""
        jobs.finish(connection, self.upload, status, self.stores.now(), outcome)


class SignOfLife:
    """Renews the lease of an attempt now and then."""

    def __init__(self, stores: Stores, upload: Upload) -> None:
        self._stores = stores
        self._upload = upload
        self._due = stores.now() + LEASE / 4

    def __call__(self, *_: int) -> None:
        """Say that the attempt goes on.

        Raises:
            StaleVersion: Another attempt took the job over.
        """
        now = self._stores.now()
        if now < self._due:
            return
        with self._stores.state.writing_home() as connection:
            jobs.renew(connection, self._upload, now)
        self._due = now + LEASE / 4
