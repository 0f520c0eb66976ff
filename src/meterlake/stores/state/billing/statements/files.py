"""Which statements bills have: their tables, and one file of each format, the newest."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    String,
    Table,
    delete,
    false,
    func,
    insert,
    select,
    update,
)

from meterlake.model.bills.statements import StatementFormat, StatementStatus
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL_VERSION, METADATA, InstantText, StorableText
from meterlake.stores.state.core.transaction import Transaction

# What a job about a statement has of its own.
STATEMENT_JOB: Final = Table(
    "statement_job",
    METADATA,
    Column("id", String(36), ForeignKey("job.id", name="statement_job_job"), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    # Of a bill that may be deleted by now.
    Column("bill_id", String(36), nullable=False),
    Index("statement_job_bill", "org", "bill_id"),
)

# The newest file of each format that a bill has.
BILL_STATEMENT: Final = Table(
    "bill_statement",
    METADATA,
    Column("bill_id", String(36), ForeignKey("bill.id"), primary_key=True),
    Column("format", String(4), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    Column("job_id", String(36), nullable=False),
    # Where the bytes are in the object store.
    Column("key", StorableText, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    # When the bill was calculated that the file shows.
    Column("calculated", InstantText, nullable=False),
    Column("made", InstantText, nullable=False),
    # Whether it has the usage of some meters only.
    Column("filtered", Boolean, nullable=False),
    # Whether the lines of the bill have changed since, without a calculation.
    Column("outdated", Boolean, nullable=False, server_default=false()),
    Index("bill_statement_org", "org"),
)


@dataclass(frozen=True, slots=True)
class StatementFile:
    """One file of a bill.

    Attributes:
        key: Where its bytes are.
        calculated: When the bill was calculated that it shows.
        filtered: Whether it has the usage of some meters only.
        outdated: Whether the bill's lines changed since without a calculation.
        written: When the bill got the content that it has now; None if nobody asked State.
    """

    bill_id: str
    format: StatementFormat
    job_id: str
    key: str
    size: int
    sha256: str
    calculated: datetime
    made: datetime
    filtered: bool = False
    outdated: bool = False
    written: datetime | None = None

    @property
    def status(self) -> StatementStatus:
        """How it stands: a calculation that changed nothing leaves it as it is."""
        stale = self.outdated or (self.written is not None and self.written > self.calculated)
        return StatementStatus.STALE if stale else StatementStatus.LATEST


Files = Mapping[StatementFormat, StatementFile]
NO_FILES: Final[Files] = MappingProxyType({})


def statement_files(reader: Reader, bill_ids: Collection[str]) -> Mapping[str, Files]:
    """The files of bills by their ids and formats; a bill without any is absent."""
    found: dict[str, dict[StatementFormat, StatementFile]] = {}
    table, former = BILL_STATEMENT.c, BILL_VERSION.c
    replaced = (
        select(func.max(former.replaced))
        .where(former.bill_id == table.bill_id)
        .correlate(BILL_STATEMENT)
        .scalar_subquery()
    )
    for some in chunks_of(bill_ids):
        query = select(BILL_STATEMENT, replaced.label("written")).where(
            table.org == reader.org_id, table.bill_id.in_(some)
        )
        for row in reader.connection.execute(query):
            values = {name: getattr(row, name) for name in StatementFile.__slots__}
            file = StatementFile(**values | {"format": StatementFormat(row.format)})
            found.setdefault(row.bill_id, {})[file.format] = file
    return found


def put_statement(transaction: Transaction, file: StatementFile) -> None:
    """Have a file take the place of the one of its format that the bill has."""
    _delete(transaction, file.bill_id, file.format)
    row = {name: getattr(file, name) for name in StatementFile.__slots__ if name != "written"}
    row |= {"org": transaction.org_id, "format": file.format.value}
    transaction.connection.execute(insert(BILL_STATEMENT), row)


def _delete(transaction: Transaction, bill_id: str, *formats: StatementFormat) -> None:
    query = delete(BILL_STATEMENT).where(BILL_STATEMENT.c.bill_id == bill_id)
    if formats:
        query = query.where(BILL_STATEMENT.c.format.in_([each.value for each in formats]))
    transaction.connection.execute(query)


def forget_statements(transaction: Transaction, bill_id: str) -> None:
    """Have a bill that is deleted have no statements; their files are removed later."""
    _delete(transaction, bill_id)


def mark_statements_outdated(transaction: Transaction, bill_id: str) -> None:
    """Note that the lines of a bill have changed without a calculation."""
    mine = update(BILL_STATEMENT).where(BILL_STATEMENT.c.bill_id == bill_id)
    transaction.connection.execute(mine.values(outdated=True))


def note_bill(transaction: Transaction, job_id: str, bill_id: str) -> None:
    """Write down which bill a job is about."""
    row = {"id": job_id, "org": transaction.org_id, "bill_id": bill_id}
    transaction.connection.execute(insert(STATEMENT_JOB), row)


def statement_keys(reader: Reader) -> Iterator[str]:
    """Where the files of all bills of the organization are."""
    query = select(BILL_STATEMENT.c.key).where(BILL_STATEMENT.c.org == reader.org_id)
    yield from reader.connection.execute(query).scalars()
