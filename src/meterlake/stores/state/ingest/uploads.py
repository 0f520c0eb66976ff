"""The jobs of files: what was announced, what arrived; who works on it is the business of the job.

A job takes a file in, or makes one: then there is nothing to wait for, and it can run at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Row,
    Select,
    String,
    Table,
    delete,
    func,
    insert,
    select,
    update,
)

from meterlake.model.errors import NotFound
from meterlake.model.measurements.receipt import UploadStatus
from meterlake.model.values import wire
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText
from meterlake.stores.state.jobs import JOB, Job, JobStatus, Lease, in_status, takeable
from meterlake.stores.state.jobs.jobs import insert_job, job_of
from meterlake.stores.state.jobs.table import of_kind

_KINDS: Final = (JobKind.UPLOAD, JobKind.LOOKUP)

UPLOAD: Final = Table(
    "upload",
    METADATA,
    Column("id", String(36), ForeignKey("job.id", name="upload_job"), primary_key=True),
    Column("name", StorableText(100), nullable=False),
    Column("content_type", StorableText(100), nullable=False),
    Column("content_length", BigInteger, nullable=False),
    Column("start_until", InstantText, nullable=False),
    Column("arrived", InstantText),
    Column("sha256", String(64)),
)
_FACTS: Final = [each for each in UPLOAD.c if each is not UPLOAD.c.id]

_STATUS: Final = {
    JobStatus.AWAITING_FILE: UploadStatus.NOT_UPLOADED,
    JobStatus.PENDING: UploadStatus.RUNNING,
    JobStatus.RUNNING: UploadStatus.RUNNING,
    JobStatus.COMPLETE: UploadStatus.SUCCEEDED,
    JobStatus.FAILED: UploadStatus.FAILED,
    JobStatus.CANCELLED: UploadStatus.FAILED,
}


@dataclass(frozen=True, slots=True)
class Upload:
    """One file, with its job.

    Attributes:
        start_until: Until when the file may begin to come.
        arrived: When the whole file was there.
        sha256: Of its bytes, where they came through us.
    """

    job: Job
    name: str
    content_type: str
    content_length: int
    start_until: datetime
    arrived: datetime | None = None
    sha256: str | None = None

    @property
    def id(self) -> str:
        """The id of the job, and of the delivery that the file is."""
        return self.job.id

    @property
    def org_id(self) -> str:
        """The organization."""
        return self.job.org_id

    @property
    def author(self) -> str:
        """Who announced the file."""
        assert self.job.author is not None
        return self.job.author

    @property
    def status(self) -> UploadStatus:
        """Where it stands, in the words of the API."""
        return _STATUS[self.job.status]


class Created(NamedTuple):
    """When the wanted jobs were made: from the start on, before the end; None is open."""

    start: datetime | None = None
    end: datetime | None = None


def add(connection: Connection, upload: Upload) -> None:
    """Write down a file that will come, or that is to be made."""
    insert_job(connection, upload.job)
    row = {
        "id": upload.id,
        "name": upload.name,
        "content_type": upload.content_type,
        "content_length": upload.content_length,
        "start_until": upload.start_until,
        "arrived": upload.arrived,
    }
    connection.execute(insert(UPLOAD), row)


def find(connection: Connection, org_id: str, id: str) -> Upload:
    """One job.

    Raises:
        NotFound: The organization has none of that id.
    """
    row = connection.execute(_files(JOB.c.id == id, JOB.c.org == org_id)).first()
    if row is None:
        raise NotFound("upload job", id)
    return _upload(row)


def page(
    connection: Connection, org_id: str, created: Created, wanted: Page
) -> tuple[list[Upload], str | None]:
    """One page of the jobs of measurements, the newest first, and the token of the next page."""
    query = _files(of_kind(org_id, JobKind.UPLOAD))
    if created.start is not None:
        query = query.where(JOB.c.created >= created.start)
    if created.end is not None:
        query = query.where(JOB.c.created < created.end)
    rows, token = read(connection, query, JOB.c.created, JOB.c.id, wanted)
    return [_upload(row) for row in rows], token


def awaiting(connection: Connection, org_id: str) -> list[Upload]:
    """The jobs whose files are not there yet, the oldest first."""
    return _oldest_first(connection, org_id, in_status(JobStatus.AWAITING_FILE))


def due(connection: Connection, org_id: str, now: datetime) -> list[Upload]:
    """The jobs whose files are there and that nobody works on, the oldest first."""
    return _oldest_first(connection, org_id, takeable(now))


def unfinished_files(connection: Connection, org_id: str) -> tuple[int, int]:
    """How many files of an organization are announced or wait, of all kinds, and their bytes."""
    count = select(func.count(), func.coalesce(func.sum(UPLOAD.c.content_length), 0))
    waits = in_status(JobStatus.AWAITING_FILE, JobStatus.PENDING, JobStatus.RUNNING)
    query = count.select_from(JOB).join(UPLOAD, UPLOAD.c.id == JOB.c.id)
    row = connection.execute(query.where(JOB.c.org == org_id, waits)).one()
    return int(row[0]), int(row[1])


def unfinished_uploads(connection: Connection, org_id: str) -> list[Upload]:
    """The jobs whose files are there and that have not ended, the oldest first."""
    return _oldest_first(connection, org_id, in_status(JobStatus.PENDING, JobStatus.RUNNING))


def arrive(connection: Connection, id: str, now: datetime, sha256: str | None = None) -> bool:
    """Note that the file is there; False if the job does not wait for it (any more)."""
    if not _go_on(connection, id, status=JobStatus.PENDING.value):
        return False
    facts = {"arrived": now, "sha256": sha256}
    connection.execute(update(UPLOAD).where(UPLOAD.c.id == id).values(facts))
    return True


def give_up(connection: Connection, id: str, now: datetime, outcome: dict[str, Any]) -> bool:
    """Fail a job whose file did not come; False if it does not wait for it any more."""
    result = wire.dumps_sorted(outcome)
    return _go_on(connection, id, status=JobStatus.FAILED.value, finished=now, result=result)


def take(connection: Connection, org_id: str, id: str, now: datetime) -> Upload | None:
    """Begin an attempt at a job; None if it is not due.

    Raises:
        NotFound: The organization has none of that id.
    """
    find(connection, org_id, id)
    if Lease.take(connection, id, now) is None:
        return None
    return find(connection, org_id, id)


def find_all(connection: Connection, ids: Iterable[str]) -> dict[str, Upload]:
    """Jobs by their ids, as far as there are some."""
    found: dict[str, Upload] = {}
    for chunk in chunks_of(ids):
        rows = connection.execute(_files(JOB.c.id.in_(chunk)))
        found |= {row.id: _upload(row) for row in rows}
    return found


def forget(connection: Connection, ids: Iterable[str]) -> None:
    """Delete jobs, with or without a file; an attempt that is under way cannot end any more."""
    for chunk in chunks_of(ids):
        connection.execute(delete(UPLOAD).where(UPLOAD.c.id.in_(chunk)))
        connection.execute(delete(JOB).where(JOB.c.id.in_(chunk)))


def _files(*conditions: ColumnElement[bool]) -> Select[Any]:
    return select(*JOB.c, *_FACTS).join(UPLOAD, UPLOAD.c.id == JOB.c.id).where(*conditions)


def _oldest_first(
    connection: Connection, org_id: str, condition: ColumnElement[bool]
) -> list[Upload]:
    query = _files(of_kind(org_id, *_KINDS), condition).order_by(JOB.c.created, JOB.c.id)
    return [_upload(row) for row in connection.execute(query)]


def _go_on(connection: Connection, id: str, **values: Any) -> bool:
    """Change a job that waits for its file; whether it did."""
    waits = (JOB.c.id == id) & in_status(JobStatus.AWAITING_FILE)
    changed = update(JOB).where(waits).values(version=JOB.c.version + 1, **values)
    return connection.execute(changed).rowcount == 1


def _upload(row: Row[Any]) -> Upload:
    return Upload(
        job_of(row),
        row.name,
        row.content_type,
        row.content_length,
        row.start_until,
        row.arrived,
        row.sha256,
    )
