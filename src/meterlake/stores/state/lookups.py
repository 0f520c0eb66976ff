"""The data of lookup table revisions, and the jobs that move it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    Index,
    Row,
    Select,
    String,
    Table,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from meterlake.model.catalog.lookup_keys import KEY_MAX
from meterlake.model.catalog.lookups import LookupTableDataJobStatus, LookupTableDataJobType
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import METADATA, StorableText
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.ingest import uploads
from meterlake.stores.state.ingest.uploads import Upload
from meterlake.stores.state.jobs import JOB, Job, JobStatus
from meterlake.stores.state.jobs.jobs import insert_job

# Rows that are in memory at a time.
_FETCHED: Final = 2000

LOOKUP_ITEM: Final = Table(
    "lookup_item",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("revision_id", String(36), primary_key=True),
    Column("key", StorableText(at_most=KEY_MAX), primary_key=True),
    Column("body", StorableText, nullable=False),
)

LOOKUP_JOB: Final = Table(
    "lookup_job",
    METADATA,
    Column("id", String(36), ForeignKey("job.id", name="lookup_job_job"), primary_key=True),
    Column("revision_id", String(36), nullable=False),
    Column("destination_id", String(36)),
    Column("type", String(20), nullable=False),
    Column("data_version", BigInteger),
    Index("lookup_job_revision", "revision_id"),
)

_STATUS: Final = {
    JobStatus.AWAITING_FILE: LookupTableDataJobStatus.PENDING,
    JobStatus.PENDING: LookupTableDataJobStatus.PENDING,
    JobStatus.RUNNING: LookupTableDataJobStatus.PENDING,
    JobStatus.COMPLETE: LookupTableDataJobStatus.SUCCEEDED,
    JobStatus.FAILED: LookupTableDataJobStatus.FAILED,
    JobStatus.CANCELLED: LookupTableDataJobStatus.FAILED,
}


@dataclass(frozen=True, slots=True)
class LookupJob:
    """Something that is done to the data of a revision.

    Attributes:
        destination_id: The revision that the data was copied to.
        data_version: The version of the data that a file is meant for; None means any.
        file: The job of its file, if it has one.
    """

    id: str
    revision_id: str
    destination_id: str | None
    type: LookupTableDataJobType
    status: LookupTableDataJobStatus
    created: datetime
    data_version: int | None = None
    file: Upload | None = None


def items(reader: Reader, revision_id: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
    """Keys and items of a revision in the order of their keys, at most `limit`."""
    query = _items(reader, revision_id).order_by(LOOKUP_ITEM.c.key).limit(limit)
    return [(row.key, wire.loads(row.body)) for row in reader.connection.execute(query)]


def all_items(reader: Reader, revision_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Keys and items of a revision in the order of their keys, in constant memory."""
    query = _items(reader, revision_id).order_by(LOOKUP_ITEM.c.key)
    for row in reader.connection.execute(query.execution_options(yield_per=_FETCHED)):
        yield row.key, wire.loads(row.body)


def item(reader: Reader, revision_id: str, key: str) -> dict[str, Any] | None:
    """The item of a key, or None."""
    query = _items(reader, revision_id).where(LOOKUP_ITEM.c.key == key)
    row = reader.connection.execute(query).first()
    return None if row is None else wire.loads(row.body)


def put(transaction: Transaction, revision_id: str, found: Mapping[str, dict[str, Any]]) -> None:
    """Write items by their keys; those of the same keys are replaced."""
    remove(transaction, revision_id, found)
    rows = [
        {
            "org": transaction.org_id,
            "revision_id": revision_id,
            "key": key,
            "body": wire.dumps_sorted(body),
        }
        for key, body in found.items()
    ]
    if rows:
        transaction.connection.execute(insert(LOOKUP_ITEM), rows)


def remove(transaction: Transaction, revision_id: str, keys: Iterable[str]) -> int:
    """Delete the items of some keys; how many there were."""
    gone = 0
    for chunk in chunks_of(keys):
        mine = (*_of(transaction, revision_id), LOOKUP_ITEM.c.key.in_(chunk))
        gone += transaction.connection.execute(delete(LOOKUP_ITEM).where(*mine)).rowcount
    return gone


def clear(transaction: Transaction, revision_id: str) -> None:
    """Delete all items of a revision."""
    transaction.connection.execute(delete(LOOKUP_ITEM).where(*_of(transaction, revision_id)))


def copy(transaction: Transaction, source_id: str, target_id: str) -> None:
    """Copy the items of a revision to another; there they replace those of the same keys."""
    table = LOOKUP_ITEM.c
    _make_room(transaction, source_id, target_id)
    connection = transaction.connection
    source = select(table.org, literal(target_id), table.key, table.body).where(
        *_of(transaction, source_id)
    )
    names = ["org", "revision_id", "key", "body"]
    connection.execute(insert(LOOKUP_ITEM).from_select(names, source))


def move(transaction: Transaction, source_id: str, target_id: str) -> None:
    """Move items to a revision; there they replace those of the same keys."""
    _make_room(transaction, source_id, target_id)
    mine = update(LOOKUP_ITEM).where(*_of(transaction, source_id))
    transaction.connection.execute(mine.values(revision_id=target_id))


def _make_room(transaction: Transaction, source_id: str, target_id: str) -> None:
    key = LOOKUP_ITEM.c.key
    keys = select(key).where(*_of(transaction, source_id)).scalar_subquery()
    mine = *_of(transaction, target_id), key.in_(keys)
    transaction.connection.execute(delete(LOOKUP_ITEM).where(*mine))


def count(reader: Reader, revision_id: str) -> int:
    """How many items a revision holds."""
    query = select(func.count()).select_from(LOOKUP_ITEM).where(*_of(reader, revision_id))
    return int(reader.connection.execute(query).scalar_one())


def _items(reader: Reader, revision_id: str) -> Select[Any]:
    return select(LOOKUP_ITEM.c.key, LOOKUP_ITEM.c.body).where(*_of(reader, revision_id))


def _of(reader: Reader, revision_id: str) -> Iterator[Any]:
    yield LOOKUP_ITEM.c.org == reader.org_id
    yield LOOKUP_ITEM.c.revision_id == revision_id


def add_job(
    transaction: Transaction,
    revision_id: str,
    type: LookupTableDataJobType,
    destination_id: str | None = None,
    *,
    file: Upload | None = None,
    data_version: int | None = None,
) -> LookupJob:
    """Write down a job: of a file, or one that was done in the transaction itself."""
    if file is not None:
        uploads.add(transaction.connection, file)
    id_ = file.id if file else _add_done(transaction)
    row = {
        "id": id_,
        "revision_id": revision_id,
        "destination_id": destination_id,
        "type": type.value,
        "data_version": data_version,
    }
    transaction.connection.execute(insert(LOOKUP_JOB), row)
    return job(transaction, revision_id, id_)


def _add_done(transaction: Transaction) -> str:
    """Write down a job that the transaction itself does; its id."""
    now = transaction.now
    done = Job(
        id=transaction.new_id(),
        org_id=transaction.org_id,
        kind=JobKind.LOOKUP,
        created=now,
        status=JobStatus.COMPLETE,
        finished=now,
        author=transaction.author,
    )
    insert_job(transaction.connection, done)
    return done.id


def job(reader: Reader, revision_id: str, id: str) -> LookupJob:
    """One job of a revision.

    Raises:
        NotFound: There is none.
    """
    mine = LOOKUP_JOB.c.revision_id == revision_id, LOOKUP_JOB.c.id == id
    return _one_job(reader, id, *mine)


def job_of_file(reader: Reader, id: str) -> LookupJob:
    """The job whose file has this id.

    Raises:
        NotFound: It is forgotten.
    """
    return _one_job(reader, id, LOOKUP_JOB.c.id == id)


def _one_job(reader: Reader, id: str, *tests: ColumnElement[bool]) -> LookupJob:
    row = reader.connection.execute(_jobs(reader, *tests)).first()
    if row is None:
        raise NotFound("LookupTableRevisionDataJob", id)
    return _with_files(reader, [row])[0]


def jobs(reader: Reader, revision_id: str, page: Page) -> tuple[list[LookupJob], str | None]:
    """One page of a revision's jobs, the newest first, and the token of the next page."""
    query = _jobs(reader, LOOKUP_JOB.c.revision_id == revision_id)
    connection: Connection = reader.connection
    rows, token = read(connection, query, JOB.c.created, JOB.c.id, page)
    return _with_files(reader, rows), token


def delete_job(transaction: Transaction, revision_id: str, id: str) -> LookupJob:
    """Forget a job; what it was.

    Raises:
        NotFound: There is none.
    """
    found = job(transaction, revision_id, id)
    _forget(transaction, [found])
    return found


def delete_jobs(transaction: Transaction, revision_id: str) -> list[Upload]:
    """Forget all jobs of a revision; the jobs of their files as they were."""
    query = _jobs(transaction, LOOKUP_JOB.c.revision_id == revision_id)
    found = _with_files(transaction, transaction.connection.execute(query).all())
    _forget(transaction, found)
    return [each.file for each in found if each.file]


def _forget(transaction: Transaction, jobs: Sequence[LookupJob]) -> None:
    for each in jobs:
        mine = LOOKUP_JOB.c.id == each.id
        transaction.connection.execute(delete(LOOKUP_JOB).where(mine))
        if each.file is not None:
            # What an attempt has laid ready is kept under the id of its job.
            clear(transaction, each.id)
    uploads.forget(transaction.connection, [each.id for each in jobs])


def _jobs(reader: Reader, *tests: ColumnElement[bool]) -> Select[Any]:
    query = select(LOOKUP_JOB, JOB.c.status, JOB.c.created).join(JOB, JOB.c.id == LOOKUP_JOB.c.id)
    return query.where(JOB.c.org == reader.org_id, *tests)


def _with_files(reader: Reader, rows: Sequence[Row[Any]]) -> list[LookupJob]:
    files = uploads.find_all(reader.connection, [row.id for row in rows])
    return [
        LookupJob(
            row.id,
            row.revision_id,
            row.destination_id,
            LookupTableDataJobType(row.type),
            _STATUS[JobStatus(row.status)],
            row.created,
            row.data_version,
            files.get(row.id),
        )
        for row in rows
    ]
