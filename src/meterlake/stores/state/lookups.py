"""The data of lookup table revisions, and the jobs that move it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from sqlalchemy import (
    Column,
    Connection,
    ForeignKey,
    Index,
    Row,
    Select,
    String,
    Table,
    Text,
    delete,
    func,
    insert,
    literal,
    select,
)

from meterlake.model import wire
from meterlake.model.errors import NotFound
from meterlake.model.lookups import LookupTableDataJobStatus, LookupTableDataJobType
from meterlake.stores.state.pages import Page, read
from meterlake.stores.state.reader import Reader
from meterlake.stores.state.tables import METADATA, InstantText
from meterlake.stores.state.transaction import Transaction

# Databases limit the parameters of a statement.
_CHUNK: Final = 400

LOOKUP_ITEM: Final = Table(
    "lookup_item",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("revision_id", String(36), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body", Text, nullable=False),
)

LOOKUP_JOB: Final = Table(
    "lookup_job",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("revision_id", String(36), nullable=False),
    Column("destination_id", String(36)),
    Column("type", String(20), nullable=False),
    Column("status", String(20), nullable=False),
    Column("created", InstantText, nullable=False),
    Index("lookup_job_revision", "org", "revision_id", "created"),
)


@dataclass(frozen=True, slots=True)
class LookupJob:
    """Something that was done to the data of a revision.

    Attributes:
        destination_id: The revision that the data was copied to.
    """

    id: str
    revision_id: str
    destination_id: str | None
    type: LookupTableDataJobType
    status: LookupTableDataJobStatus
    created: datetime


def items(reader: Reader, revision_id: str, limit: int) -> list[tuple[str, dict[str, Any]]]:
    """Keys and items of a revision in the order of their keys, at most `limit`."""
    query = _items(reader, revision_id).order_by(LOOKUP_ITEM.c.key).limit(limit)
    return [(row.key, wire.loads(row.body)) for row in reader.connection.execute(query)]


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
    gone, rest = 0, iter(keys)
    while chunk := list(islice(rest, _CHUNK)):
        mine = (*_of(transaction, revision_id), LOOKUP_ITEM.c.key.in_(chunk))
        gone += transaction.connection.execute(delete(LOOKUP_ITEM).where(*mine)).rowcount
    return gone


def clear(transaction: Transaction, revision_id: str) -> None:
    """Delete all items of a revision."""
    transaction.connection.execute(delete(LOOKUP_ITEM).where(*_of(transaction, revision_id)))


def copy(transaction: Transaction, source_id: str, target_id: str) -> None:
    """Copy the items of a revision to another; there they replace those of the same keys."""
    table = LOOKUP_ITEM.c
    keys = select(table.key).where(*_of(transaction, source_id)).scalar_subquery()
    connection = transaction.connection
    connection.execute(delete(LOOKUP_ITEM).where(*_of(transaction, target_id), table.key.in_(keys)))
    source = select(table.org, literal(target_id), table.key, table.body).where(
        *_of(transaction, source_id)
    )
    names = ["org", "revision_id", "key", "body"]
    connection.execute(insert(LOOKUP_ITEM).from_select(names, source))


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
    destination_id: str | None,
) -> LookupJob:
    """Write down a job that was done in the transaction itself."""
    row = {
        "id": transaction.new_id(),
        "org": transaction.org_id,
        "revision_id": revision_id,
        "destination_id": destination_id,
        "type": type.value,
        "status": LookupTableDataJobStatus.SUCCEEDED.value,
        "created": transaction.now,
    }
    transaction.connection.execute(insert(LOOKUP_JOB), row)
    return job(transaction, revision_id, str(row["id"]))


def job(reader: Reader, revision_id: str, id: str) -> LookupJob:
    """One job of a revision.

    Raises:
        NotFound: There is none.
    """
    row = reader.connection.execute(_jobs(reader, revision_id).where(LOOKUP_JOB.c.id == id)).first()
    if row is None:
        raise NotFound("LookupTableRevisionDataJob", id)
    return _job(row)


def jobs(reader: Reader, revision_id: str, page: Page) -> tuple[list[LookupJob], str | None]:
    """One page of a revision's jobs, the newest first, and the token of the next page."""
    query = _jobs(reader, revision_id)
    columns = LOOKUP_JOB.c
    connection: Connection = reader.connection
    rows, token = read(connection, query, columns.created, columns.id, page)
    return [_job(row) for row in rows], token


def delete_job(transaction: Transaction, revision_id: str, id: str) -> LookupJob:
    """Forget a job; what it was.

    Raises:
        NotFound: There is none.
    """
    found = job(transaction, revision_id, id)
    transaction.connection.execute(delete(LOOKUP_JOB).where(LOOKUP_JOB.c.id == found.id))
    return found


def delete_jobs(transaction: Transaction, revision_id: str) -> None:
    """Forget all jobs of a revision."""
    columns = LOOKUP_JOB.c
    transaction.connection.execute(
        delete(LOOKUP_JOB).where(
            columns.org == transaction.org_id, columns.revision_id == revision_id
        )
    )


def _jobs(reader: Reader, revision_id: str) -> Select[Any]:
    columns = LOOKUP_JOB.c
    return select(LOOKUP_JOB).where(
        columns.org == reader.org_id, columns.revision_id == revision_id
    )


def _job(row: Row[Any]) -> LookupJob:
    return LookupJob(
        row.id,
        row.revision_id,
        row.destination_id,
        LookupTableDataJobType(row.type),
        LookupTableDataJobStatus(row.status),
        row.created,
    )
