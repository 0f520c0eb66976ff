"""The tables of late usage, and late usage from and to their rows."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    Row,
    String,
    Table,
    Text,
    select,
)

from meterlake.model.bills.late_usage import (
    UNDECIDED,
    LateLine,
    LateSource,
    LateUsage,
    LateUsageStatus,
)
from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import DamagedRow, Reader
from meterlake.stores.state.core.tables import METADATA, RecordDay, RecordInstant, StorableText

# Of rows that something may still be done about.
UNDECIDED_STATUSES: Final = tuple(each.value for each in UNDECIDED)
# The late usage of a bill: one row that something may be done about, and those of before.
LATE_USAGE: Final = Table(
    "late_usage",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    # Of a bill that may be deleted by now: its key is what it has in common with the next one.
    Column("bill_id", String(36), nullable=False),
    Column("account_id", String(36), nullable=False),
    Column("bill_date", RecordDay, nullable=False),
    Column("frequency", String(20), nullable=False),
    Column("interval", Integer, nullable=False),
    Column("grouping_key", String(36), nullable=False),
    Column("period", StorableText(40), nullable=False),
    Column("currency", StorableText(80), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("status", String(20), nullable=False),
    Column("bill_version", Integer, nullable=False),
    Column("sources", StorableText, nullable=False),
    Column("difference", StorableText),
    Column("new_version", Integer),
    Column("reason", StorableText),
    Column("found", RecordInstant, nullable=False),
    Column("decided", RecordInstant),
    # The last transaction of the ledger that the calculation of the bill has; None if nobody knows.
    Column("ledger_at", BigInteger),
    Index("late_usage_bill", "org", "bill_id"),
    Index("late_usage_account", "org", "account_id", "bill_date"),
    Index("late_usage_status", "org", "status"),
)

# By how much each line of the bill differs. What a memo carries is never carried again.
LATE_USAGE_LINE: Final = Table(
    "late_usage_line",
    METADATA,
    Column("late_usage_id", String(36), ForeignKey("late_usage.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("key", StorableText, nullable=False),
    Column("line_id", String(36)),
    Column("description", StorableText, nullable=False),
    Column("amount", Text, nullable=False),
    Column("memo_bill_id", String(36)),
    Column("memo_id", String(36)),
    Column("memo_amount", Text),
    Column("memo_currency", StorableText(80)),
    # The late usage whose memos take this one back, and those with it; then it counts no more.
    Column("taken_back", String(36)),
    Index("late_usage_line_memo", "memo_bill_id"),
    Index("late_usage_line_taken_back", "taken_back"),
)


def read_undecided_rows(reader: Reader, bill_ids: Collection[str]) -> Iterator[Row[Any]]:
    """The rows of some bills that something may still be done about."""
    for ids in chunks_of(bill_ids):
        query = select(LATE_USAGE).where(
            LATE_USAGE.c.org == reader.org_id,
            LATE_USAGE.c.bill_id.in_(ids),
            LATE_USAGE.c.status.in_(UNDECIDED_STATUSES),
        )
        yield from reader.connection.execute(query)


def from_rows(reader: Reader, rows: Sequence[Row[Any]]) -> list[LateUsage]:
    """Late usage of its rows, with its lines.

    Raises:
        DamagedRow: One of them is not what anybody wrote.
    """
    found, damaged = read_readable(reader, rows)
    for error in damaged.values():
        raise error
    return found


def read_readable(
    reader: Reader, rows: Sequence[Row[Any]]
) -> tuple[list[LateUsage], dict[str, DamagedRow]]:
    """Late usage of its rows, and, by account, of which there is a damaged one; then none of it."""
    lines: dict[str, list[Row[Any]]] = defaultdict(list)
    table = LATE_USAGE_LINE.c
    for ids in chunks_of([row.id for row in rows]):
        query = select(LATE_USAGE_LINE).where(table.late_usage_id.in_(ids))
        query = query.order_by(table.late_usage_id, table.position)
        for row in reader.connection.execute(query):
            lines[row.late_usage_id].append(row)
    found: list[LateUsage] = []
    damaged: dict[str, DamagedRow] = {}
    for row in rows:
        try:
            found.append(_late_usage_of(row, lines[row.id]))
        except DamagedRow as error:
            damaged.setdefault(row.account_id, error)
    return [each for each in found if each.account_id not in damaged], damaged


@contextmanager
def naming_damaged(id: str, version: int) -> Iterator[None]:
    """Name late usage whose row, or one of whose lines, cannot be read.

    Raises:
        DamagedRow: It is not what anybody wrote.
    """
    try:
        yield
    except (Invalid, ValueError, ArithmeticError, LookupError, TypeError) as error:
        raise DamagedRow("LateUsage", id, version, str(error)) from None


def _late_usage_of(row: Row[Any], lines: Sequence[Row[Any]]) -> LateUsage:
    with naming_damaged(row.id, row.bill_version):
        _expect_times(row.bill_date, row.found, row.decided)
        return LateUsage(
            id=row.id,
            bill_id=row.bill_id,
            account_id=row.account_id,
            period=row.period,
            bill_date=row.bill_date,
            currency=row.currency,
            since=row.since,
            until=row.until,
            status=LateUsageStatus(row.status),
            bill_version=row.bill_version,
            sources=sources_from_text(row.sources),
            difference=None if row.difference is None else Decimal(row.difference),
            lines=[line_from_row(each) for each in lines],
            new_version=row.new_version,
            reason=row.reason,
            found=row.found,
            decided=row.decided,
        )


def _expect_times(*found: object) -> None:
    """Refuse what is neither a day nor an instant; a column gives what it cannot read as it is."""
    for each in found:
        if not isinstance(each, date | None):
            raise TypeError(f"{each!r} is no date")


def line_to_row(id: str, position: int, line: LateLine) -> dict[str, Any]:
    """The row of a line of late usage."""
    amounts = {"amount": plain(line.amount), "memo_amount": None}
    if line.memo_amount is not None:
        amounts["memo_amount"] = plain(line.memo_amount)
    return {**line._asdict(), **amounts, "late_usage_id": id, "position": position}


def line_from_row(row: Row[Any]) -> LateLine:
    """A line of late usage of its row."""
    columns = row._asdict()
    found = {name: columns[name] for name in LateLine._fields}
    for name in ("amount", "memo_amount"):
        found[name] = None if found[name] is None else Decimal(found[name])
    return LateLine(**found)


def sources_to_text(sources: Iterable[LateSource]) -> str:
    """Sources as a row has them."""
    return wire.dumps_sorted([each.to_wire() for each in sources])


def sources_from_text(text: str) -> tuple[LateSource, ...]:
    """The sources of a row."""
    return tuple(map(LateSource.from_wire, wire.loads(text)))
