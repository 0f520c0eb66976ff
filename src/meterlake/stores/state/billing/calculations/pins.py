"""What bills were calculated from, and the snapshots and files of lakes that it keeps.

One row stands for all bills of one reading, written with the first.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from sqlalchemy import String, cast, func, insert, literal, select

from meterlake.model.work.backfill import BackfillStatus
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_CALCULATION,
    ENTITY_HISTORY,
    LAKE_FILE,
    ORGANIZATION,
)
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.ingest.backfills import BACKFILL
from meterlake.stores.state.jobs import AGAIN, JOB, JobStatus, in_status

# Such a backfill needs what was before, and what it left.
_NEEDED: Final = (BackfillStatus.STAGING, BackfillStatus.STAGED, BackfillStatus.APPLIED)
# So long after its end an export that failed can be run again for sure.
RETRIED: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class CalculationPins:
    """What the bills of one reading were calculated from.

    Attributes:
        at: The last transaction of the organization that the reading saw.
        snapshot: Of the lake.
        selection: Which bills, as JSON.
        code: The version of meterlake.
        digest: Of the sources that calculate.
    """

    id: str
    at: int
    snapshot: int
    selection: str
    code: str
    digest: str


def last_transaction(reader: Reader) -> int:
    """The number of the last transaction that wrote what bills are made of, as a reader sees it."""
    query = select(ORGANIZATION.c.transactions).where(ORGANIZATION.c.id == reader.org_id)
    return int(reader.connection.execute(query).scalar_one())


def transactions_at(reader: Reader, instants: Collection[datetime]) -> dict[datetime, int]:
    """The last transaction that had changed the configuration at some instants."""
    table = ENTITY_HISTORY.c
    newest = func.max(table.began)
    return {
        each: int(reader.connection.scalar(query) or 0)
        for each in instants
        for query in [select(newest).where(table.org == reader.org_id, table.valid_from <= each)]
    }


def note_calculation(transaction: Transaction, pins: CalculationPins) -> None:
    """Write down what bills were calculated from, unless that was done with others of them."""
    known = select(BILL_CALCULATION.c.id).where(BILL_CALCULATION.c.id == pins.id)
    if transaction.connection.execute(known).first() is None:
        row = {
            **{name: getattr(pins, name) for name in CalculationPins.__slots__},
            "org": transaction.org_id,
            "created": transaction.now,
            "created_by": transaction.author,
        }
        transaction.connection.execute(insert(BILL_CALCULATION), row)


def read_calculations(reader: Reader, ids: Collection[str]) -> dict[str, CalculationPins]:
    """What calculations were made from, by their ids."""
    table = BILL_CALCULATION.c
    found: dict[str, CalculationPins] = {}
    columns = [table[name] for name in CalculationPins.__slots__]
    for chunk in chunks_of(ids):
        query = select(*columns).where(table.org == reader.org_id, table.id.in_(chunk))
        found |= {row.id: CalculationPins(*row) for row in reader.connection.execute(query)}
    return found


class NotedFile(NamedTuple):
    """A file of a lake.

    Attributes:
        sha256: None where nobody knows.
    """

    path: str
    size_bytes: int
    sha256: str | None


def read_noted(reader: Reader, paths: Iterable[str]) -> dict[str, NotedFile]:
    """What is known of files, by their paths."""
    found: dict[str, NotedFile] = {}
    table = LAKE_FILE.c
    for chunk in chunks_of(paths):
        query = select(table.path, table.size_bytes, table.sha256).where(
            table.org == reader.org_id, table.path.in_(chunk)
        )
        found |= {row.path: NotedFile(*row) for row in reader.connection.execute(query)}
    return found


def note_files(transaction: Transaction, files: Collection[NotedFile]) -> None:
    """Write down what files are, but for those that somebody has noted meanwhile."""
    known = read_noted(transaction, [each.path for each in files])
    own = {"org": transaction.org_id, "noted": transaction.now}
    rows = [each._asdict() | own for each in files if each.path not in known]
    insert_rows(transaction.connection, LAKE_FILE, rows)


def pinned_snapshots(state: State, org_id: str) -> set[int]:
    """The snapshots that an organization's bills, jobs and backfills read, or may read again.

    Raises:
        Unavailable: The database cannot be reached.
    """
    by_bills = select(member_text(BILL.c.pins, literal("snapshot"))).where(BILL.c.org == org_id)
    # Jobs that run or wait, and exports that somebody may retry.
    ended = in_status(*AGAIN) & (JOB.c.finished > state.now() - RETRIED)
    goes_on = (
        in_status(JobStatus.PENDING, JobStatus.RUNNING) | (JOB.c.kind == JobKind.EXPORT) & ended
    )
    by_jobs = select(cast(JOB.c.snapshot, String)).where(
        JOB.c.org == org_id, JOB.c.snapshot.is_not(None), goes_on
    )
    needed = (BACKFILL.c.org == org_id) & BACKFILL.c.status.in_([each.value for each in _NEEDED])
    by_backfills = [
        select(cast(column, String)).where(needed, column.is_not(None))
        for column in (BACKFILL.c.snapshot, BACKFILL.c.applied)
    ]
    with state.reading_home() as connection:
        found = connection.execute(by_bills.union(by_jobs, *by_backfills)).scalars()
        return {int(snapshot) for snapshot in found if snapshot is not None}
