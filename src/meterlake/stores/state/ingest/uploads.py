"""The jobs of files: what was announced, what arrived, who works on it, how it ended.

A job takes a file in, or makes one: then there is nothing to wait for, and it runs from the start.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Index,
    Integer,
    Row,
    String,
    Table,
    Text,
    Update,
    delete,
    insert,
    or_,
    select,
    update,
)

from meterlake.model import wire
from meterlake.model.errors import NotFound, StaleVersion
from meterlake.model.uploads import JobKind, UploadStatus
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.tables import METADATA, InstantText

# Databases limit the parameters of a statement.
_CHUNK: Final = 400
# Who works on a job says so again and again; one that was silent for so long is dead.
LEASE: Final = timedelta(minutes=1)

UPLOAD: Final = Table(
    "upload",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("name", String(100), nullable=False),
    Column("content_type", String(100), nullable=False),
    Column("content_length", BigInteger, nullable=False),
    Column("status", String(20), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created", InstantText, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("start_until", InstantText, nullable=False),
    Column("arrived", InstantText),
    Column("sha256", String(64)),
    Column("lease_until", InstantText),
    Column("attempt", Integer, nullable=False),
    Column("outcome", Text),
    Column("finished", InstantText),
    Column("kind", String(20), nullable=False, server_default=JobKind.MEASUREMENTS.value),
    Index("upload_newest", "org", "created", "id"),
    Index("upload_waiting", "org", "status", "created"),
)


@dataclass(frozen=True, slots=True)
class Upload:
    """One file and its job.

    Attributes:
        kind: What the job is for.
        start_until: Until when the file may begin to come.
        arrived: When the whole file was there.
        sha256: Of its bytes, where they came through us.
        attempt: The fencing token: only the latest attempt may finish the job.
        outcome: How it ended: counts, reasons.
    """

    id: str
    org_id: str
    name: str
    content_type: str
    content_length: int
    created: datetime
    created_by: str
    start_until: datetime
    status: UploadStatus = UploadStatus.NOT_UPLOADED
    version: int = 1
    arrived: datetime | None = None
    sha256: str | None = None
    lease_until: datetime | None = None
    attempt: int = 0
    outcome: dict[str, Any] | None = None
    finished: datetime | None = None
    kind: JobKind = JobKind.MEASUREMENTS


class Created(NamedTuple):
    """When the wanted jobs were made: from the start on, before the end; None is open."""

    start: datetime | None = None
    end: datetime | None = None


def add(connection: Connection, upload: Upload) -> None:
    """Write down a file that will come, or that is to be made."""
    row = {
        "id": upload.id,
        "org": upload.org_id,
        "name": upload.name,
        "content_type": upload.content_type,
        "content_length": upload.content_length,
        "status": upload.status.value,
        "version": upload.version,
        "created": upload.created,
        "created_by": upload.created_by,
        "start_until": upload.start_until,
        "attempt": upload.attempt,
        "arrived": upload.arrived,
        "kind": upload.kind.value,
    }
    connection.execute(insert(UPLOAD), row)


def find(connection: Connection, org_id: str, id: str) -> Upload:
    """One job.

    Raises:
        NotFound: The organization has none of that id.
    """
    query = select(UPLOAD).where(UPLOAD.c.id == id, UPLOAD.c.org == org_id)
    row = connection.execute(query).first()
    if row is None:
        raise NotFound("upload job", id)
    return _upload(row)


def listed(
    connection: Connection, org_id: str, created: Created, page: Page
) -> tuple[list[Upload], str | None]:
    """One page of the jobs of measurements, the newest first, and the token of the next page."""
    query = select(UPLOAD).where(
        UPLOAD.c.org == org_id, UPLOAD.c.kind == JobKind.MEASUREMENTS.value
    )
    if created.start is not None:
        query = query.where(UPLOAD.c.created >= created.start)
    if created.end is not None:
        query = query.where(UPLOAD.c.created < created.end)
    rows, token = read(connection, query, UPLOAD.c.created, UPLOAD.c.id, page)
    return [_upload(row) for row in rows], token


def awaited(connection: Connection, org_id: str) -> list[Upload]:
    """The jobs whose files are not there yet, the oldest first."""
    return list(_of_status(connection, org_id, UploadStatus.NOT_UPLOADED))


def due(connection: Connection, org_id: str, now: datetime) -> list[Upload]:
    """The jobs whose files are there and that nobody works on, the oldest first."""
    found = running(connection, org_id)
    return [each for each in found if each.lease_until is None or each.lease_until <= now]


def running(connection: Connection, org_id: str) -> list[Upload]:
    """The jobs whose files are there and that have not ended, the oldest first."""
    return list(_of_status(connection, org_id, UploadStatus.RUNNING))


def arrive(connection: Connection, id: str, now: datetime, sha256: str | None = None) -> bool:
    """Note that the file is there; False if the job does not wait for it (any more)."""
    values = {"status": UploadStatus.RUNNING.value, "arrived": now, "sha256": sha256}
    return _changed(connection, _waiting(id), values)


def give_up(connection: Connection, id: str, now: datetime, outcome: dict[str, Any]) -> bool:
    """Fail a job whose file did not come; False if it does not wait for it any more."""
    values = {
        "status": UploadStatus.FAILED.value,
        "finished": now,
        "outcome": wire.dumps_sorted(outcome),
    }
    return _changed(connection, _waiting(id), values)


def take(connection: Connection, org_id: str, id: str, now: datetime) -> Upload | None:
    """Begin an attempt at a job; None if it is not due.

    Raises:
        NotFound: The organization has none of that id.
    """
    free = or_(UPLOAD.c.lease_until.is_(None), UPLOAD.c.lease_until <= now)
    mine = UPLOAD.c.id == id, UPLOAD.c.org == org_id
    statement = update(UPLOAD).where(*mine, UPLOAD.c.status == UploadStatus.RUNNING.value, free)
    values = {"attempt": UPLOAD.c.attempt + 1, "lease_until": now + LEASE}
    taken = connection.execute(statement.values(values)).rowcount == 1
    found = find(connection, org_id, id)
    return found if taken else None


def renew(connection: Connection, upload: Upload, now: datetime) -> None:
    """Say that the attempt goes on.

    Raises:
        StaleVersion: Another attempt took the job over, or it has ended.
    """
    values = {"lease_until": now + LEASE}
    if connection.execute(_held(upload).values(values)).rowcount != 1:
        raise _stale(connection, upload)


def free(connection: Connection, upload: Upload) -> None:
    """End an attempt without a result, so that the next one can begin at once."""
    connection.execute(_held(upload).values(lease_until=None))


def finish(
    connection: Connection,
    upload: Upload,
    status: UploadStatus,
    now: datetime,
    outcome: dict[str, Any],
) -> None:
    """Write the end of a job down.

    Raises:
        StaleVersion: Another attempt took the job over, or it has ended.
    """
    values = {
        "status": status.value,
        "finished": now,
        "lease_until": None,
        "outcome": wire.dumps_sorted(outcome),
    }
    if not _changed(connection, _held(upload), values):
        raise _stale(connection, upload)


def some(connection: Connection, ids: Iterable[str]) -> dict[str, Upload]:
    """Jobs by their ids, as far as there are some."""
    found: dict[str, Upload] = {}
    for chunk in _chunks(ids):
        rows = connection.execute(select(UPLOAD).where(UPLOAD.c.id.in_(chunk)))
        found |= {row.id: _upload(row) for row in rows}
    return found


def forget(connection: Connection, ids: Iterable[str]) -> None:
    """Delete jobs; an attempt that is under way cannot end any more."""
    for chunk in _chunks(ids):
        connection.execute(delete(UPLOAD).where(UPLOAD.c.id.in_(chunk)))


def _chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _of_status(connection: Connection, org_id: str, status: UploadStatus) -> Iterator[Upload]:
    query = select(UPLOAD).where(UPLOAD.c.org == org_id, UPLOAD.c.status == status.value)
    return map(_upload, connection.execute(query.order_by(UPLOAD.c.created, UPLOAD.c.id)).all())


def _waiting(id: str) -> Update:
    return update(UPLOAD).where(
        UPLOAD.c.id == id, UPLOAD.c.status == UploadStatus.NOT_UPLOADED.value
    )


def _held(upload: Upload) -> Update:
    return update(UPLOAD).where(
        UPLOAD.c.id == upload.id,
        UPLOAD.c.attempt == upload.attempt,
        UPLOAD.c.status == UploadStatus.RUNNING.value,
    )


def _changed(connection: Connection, statement: Update, values: dict[str, Any]) -> bool:
    statement = statement.values(version=UPLOAD.c.version + 1, **values)
    return connection.execute(statement).rowcount == 1


def _stale(connection: Connection, upload: Upload) -> StaleVersion:
    # A job that was forgotten meanwhile has no attempt.
    stored = some(connection, [upload.id]).get(upload.id)
    now = stored.attempt if stored else 0
    return StaleVersion("attempt at upload job", upload.id, now, upload.attempt)


def _upload(row: Row[Any]) -> Upload:
    return Upload(
        id=row.id,
        org_id=row.org,
        name=row.name,
        content_type=row.content_type,
        content_length=row.content_length,
        created=row.created,
        created_by=row.created_by,
        start_until=row.start_until,
        status=UploadStatus(row.status),
        version=row.version,
        arrived=row.arrived,
        sha256=row.sha256,
        lease_until=row.lease_until,
        attempt=row.attempt,
        outcome=wire.loads(row.outcome) if row.outcome else None,
        finished=row.finished,
        kind=JobKind(row.kind),
    )
