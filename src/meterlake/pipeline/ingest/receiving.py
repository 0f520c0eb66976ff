"""Taking in an announced file: what its URL allows, and nothing but the whole file stays."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from meterlake.model.errors import (
    Busy,
    FileSent,
    Forbidden,
    Invalid,
    NotFound,
    ObjectExists,
    Required,
    TooLarge,
    Unavailable,
    Unsupported,
)
from meterlake.model.measurements.receipt import UploadStatus
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.ingest import uploads
from meterlake.pipeline.jobs.file_jobs import key
from meterlake.stores import Stores
from meterlake.stores.files.incoming import REFUSED, Ticket, ticket_of
from meterlake.stores.objects.local import LocalObjects, Writing
from meterlake.stores.state.ingest import uploads as jobs
from meterlake.stores.state.ingest.uploads import Upload

_LENGTH: Final = "content-length"
_TYPE: Final = "content-type"


@dataclass
class Receiving:
    """A file that is coming in."""

    stores: Stores
    upload: Upload
    writing: Writing

    def write(self, data: bytes) -> None:
        """Take some bytes.

        Raises:
            TooLarge: They are more than were announced.
            Unavailable: The disk is full or failed.
        """
        if self.writing.size_bytes + len(data) > self.upload.content_length:
            raise TooLarge("the file", self.upload.content_length)
        with _told_to_sender(self.upload):
            self.writing.write(data)
        mark_step("uploads.received")

    def finish(self) -> None:
        """Keep the file for its job.

        Raises:
            Invalid: It is shorter than was announced.
            FileSent: There is one already.
            Unavailable: The disk or State failed.
        """
        size = self.writing.size_bytes
        if size < self.upload.content_length:
            rule = f"it must be {self.upload.content_length} bytes, as announced"
            raise Invalid("length of the file", size, rule)
        with _told_to_sender(self.upload):
            sha256 = self.writing.finish()
        mark_step("uploads.stored")
        uploads.note_arrival(self.stores, self.upload, size, sha256)


@contextmanager
def receiving(stores: Stores, token: str, headers: Mapping[str, str]) -> Iterator[Receiving]:
    """Begin to take in a file; what is not finished leaves nothing.

    Args:
        stores: The home's stores.
        token: What follows the last slash of the URL's path.
        headers: Those of the request, their names in lower case.

    Raises:
        Forbidden: The URL is none of ours, was changed, or has ended.
        Unsupported: The content type is not the announced one, or the file is sent encoded.
        Invalid: The announced length is another one.
        FileSent: The URL was used already.
        Busy: It is being used at the moment.
        Unavailable: The disk or State failed.
    """
    ticket = ticket_of(stores.secrets, token, stores.now())
    upload = _waiting(stores, ticket)
    if stores.now() > ticket.start_until:
        raise Forbidden(REFUSED)
    given = headers.get(_TYPE, "")
    if given != ticket.content_type:
        raise Unsupported(_TYPE, given, repr(ticket.content_type))
    encoding = headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise Unsupported("content encoding", encoding, "identity")
    length = headers.get(_LENGTH)
    if length is None and "transfer-encoding" not in headers:
        raise Required(_LENGTH)
    if length is not None and length != str(ticket.content_length):
        raise Invalid(_LENGTH, length, f"it must be {ticket.content_length}, as it was announced")
    objects = stores.objects
    if not isinstance(objects, LocalObjects):
        raise Forbidden(
            "files go to another object store since the upload URL was made; begin another upload"
        )
    with ExitStack() as stack:
        with _told_to_sender(upload):
            writing = stack.enter_context(objects.writing(key(upload)))
        # Again under the lock: another client may have finished meanwhile.
        yield Receiving(stores, _waiting(stores, ticket), writing)


@contextmanager
def _told_to_sender(upload: Upload) -> Iterator[None]:
    """The store's errors as those of the upload: files on our disk are no sender's business."""
    try:
        yield
    except Busy:
        raise Busy(
            f"upload job {upload.id!r}", "another client sends its file; try again later"
        ) from None
    except ObjectExists:
        # A server died between storing and noting it; the worker notes it.
        raise FileSent(upload.id) from None
    except (Invalid, NotFound) as error:
        # A folder that is read-only or gone: nothing that another request would mend.
        raise Unavailable(
            "the store of uploads", str(error), "send the file again when that is mended"
        ) from error


def _waiting(stores: Stores, ticket: Ticket) -> Upload:
    """The job of a URL, which waits for its file."""
    with stores.state.reading_home() as connection:
        try:
            upload = jobs.find(connection, ticket.org_id, ticket.job_id)
        except NotFound:
            raise Forbidden(REFUSED) from None
    if upload.arrived is not None:
        raise FileSent(upload.id)
    if upload.status is not UploadStatus.NOT_UPLOADED:
        raise Forbidden(REFUSED)
    return upload
