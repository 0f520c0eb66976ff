"""Stored bills and billed periods, as far as late usage asks about them."""

from collections.abc import Collection, Iterable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import Row, case, func, literal, select, type_coerce

from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import DamagedRow, Reader
from meterlake.stores.state.core.tables import BILL, RecordDay, RecordInstant
from meterlake.stores.state.jobs import JOB

_BILL_COLUMNS: Final = (
    *("id", *BillKey.COLUMNS, "period", "currency", "total", "locked"),
    *("content_version", "calculation_id", "ledger_at", "calculated"),
)
# A job that a bill came out of unchanged has read more than what the bill was made from.
READ_UNTIL: Final = case((JOB.c.snapshot > BILL.c.snapshot, JOB.c.snapshot), else_=BILL.c.snapshot)


class OldestBill(NamedTuple):
    """A period that was billed, and the oldest snapshot that one of its bills was made from."""

    period: str
    frequency: str
    snapshot: int


class BilledPeriod(NamedTuple):
    """One bill: its period by name and as instants, when and from what it was made."""

    bill_id: str
    account_id: str
    start: datetime
    end: datetime
    made: datetime
    snapshot: int


def oldest_bills(reader: Reader, before: int) -> list[OldestBill]:
    """The periods with bills from a snapshot before another one; an index knows them all."""
    oldest = func.min(BILL.c.snapshot)
    query = (
        select(BILL.c.period, BILL.c.frequency, oldest)
        .where(BILL.c.org == reader.org_id)
        .group_by(BILL.c.period, BILL.c.frequency)
        .having(oldest < before)
        .order_by(BILL.c.period, BILL.c.frequency)
    )
    return [OldestBill(*row) for row in reader.connection.execute(query)]


def billed_periods(
    reader: Reader, period: str, frequency: str, account_ids: Collection[str]
) -> Iterator[BilledPeriod]:
    """The bills of some accounts in one period."""
    query = select(
        BILL.c.id,
        BILL.c.account_id,
        member_text(BILL.c.body, literal("startDateTimeUTC")),
        member_text(BILL.c.body, literal("endDateTimeUTC")),
        BILL.c.modified,
        BILL.c.snapshot,
    ).where(
        BILL.c.org == reader.org_id,
        BILL.c.period == period,
        BILL.c.frequency == frequency,
        BILL.c.snapshot.is_not(None),
    )
    for bill_id, account_id, start, end, made, snapshot in reader.connection.execute(query):
        if account_id in account_ids:
            yield BilledPeriod(
                bill_id,
                account_id,
                datetime.fromisoformat(start),
                datetime.fromisoformat(end),
                made,
                snapshot,
            )


class LateBill(NamedTuple):
    """A stored bill, as far as it tells what is late for it.

    Attributes:
        snapshot: What the lake had when it was calculated last, also if it came out the same.
        content_version: The version that its content is of.
        calculated: When it came out so the last time.
        start: The first instant of its service period.
        end: The exclusive end of that.
    """

    id: str
    key: BillKey
    period: str
    currency: str
    total: Decimal
    locked: bool
    snapshot: int | None
    content_version: int
    calculation_id: str | None
    ledger_at: int
    calculated: datetime | None
    start: datetime
    end: datetime

    @property
    def account_id(self) -> str:
        """Whose it is."""
        return self.key.account_id


def read_late_bills(
    reader: Reader, *conditions: Any, damaged: dict[str, DamagedRow] | None = None
) -> list[LateBill]:
    """The bills that meet all conditions, by bill date.

    Args:
        reader: Of the organization.
        conditions: What they meet.
        damaged: Takes the rows that cannot be read, by account; without it the first is raised.

    Raises:
        DamagedRow: A bill is not what anybody wrote.
    """
    day = type_coerce(BILL.c.bill_date, RecordDay()).label("bill_date")
    calculated = type_coerce(BILL.c.calculated, RecordInstant()).label("calculated")
    others = (BILL.c[name] for name in _BILL_COLUMNS if name not in {"bill_date", "calculated"})
    starts = member_text(BILL.c.body, literal("startDateTimeUTC")).label("starts")
    ends = member_text(BILL.c.body, literal("endDateTimeUTC")).label("ends")
    query = (
        select(
            day, calculated, *others, starts, ends, READ_UNTIL.label("read_until"), BILL.c.version
        )
        .outerjoin(JOB, JOB.c.id == BILL.c.job_id)
        .where(BILL.c.org == reader.org_id, *conditions)
    )
    found: list[LateBill] = []
    for row in reader.connection.execute(query.order_by(BILL.c.bill_date, BILL.c.id)):
        try:
            found.append(_late_bill_of(row))
        except DamagedRow as error:
            if damaged is None:
                raise
            damaged.setdefault(row.account_id, error)
    return found


def _late_bill_of(row: Row[Any]) -> LateBill:
    try:
        starts, ends = datetime.fromisoformat(row.starts), datetime.fromisoformat(row.ends)
        total = Decimal(row.total)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise DamagedRow("Bill", row.id, row.version, str(error)) from None
    for name, kind in (("bill_date", date), ("calculated", datetime | None)):
        if not isinstance(value := getattr(row, name), kind):
            raise DamagedRow("Bill", row.id, row.version, f"{name} is {value!r}")
    return LateBill(
        *(row.id, BillKey.of_row(row), row.period, row.currency, total, row.locked),
        *(row.read_until, row.content_version, row.calculation_id, row.ledger_at or 0),
        *(row.calculated, starts, ends),
    )


def oldest_calculated(reader: Reader, before: int) -> list[OldestBill]:
    """The periods with bills that were calculated last from a snapshot before another one."""
    oldest = func.min(READ_UNTIL)
    query = (
        select(BILL.c.period, BILL.c.frequency, oldest)
        .outerjoin(JOB, JOB.c.id == BILL.c.job_id)
        .where(BILL.c.org == reader.org_id)
        .group_by(BILL.c.period, BILL.c.frequency)
        .having(oldest < before)
        .order_by(BILL.c.period, BILL.c.frequency)
    )
    return [OldestBill(*row) for row in reader.connection.execute(query)]


def late_bills_by_id(
    reader: Reader, ids: Iterable[str], damaged: dict[str, DamagedRow] | None = None
) -> dict[str, LateBill]:
    """Some bills by their ids; those that are deleted are not in it. Damaged: as `read_late_bills`."""
    return {
        each.id: each
        for chunk in chunks_of(ids)
        for each in read_late_bills(reader, BILL.c.id.in_(chunk), damaged=damaged)
    }


def next_pending_bill(reader: Reader, key: BillKey, closed_until: date | None) -> LateBill | None:
    """The first later bill of the same kind that nobody approved or locked; None if there is none."""
    conditions = [
        BILL.c.account_id == key.account_id,
        BILL.c.grouping_key == key.grouping_key,
        BILL.c.bill_date > key.bill_date,
        BILL.c.status == "PENDING",
        BILL.c.locked.is_(False),
    ]
    if closed_until is not None:
        conditions.append(BILL.c.bill_date > closed_until)
    found = read_late_bills(reader, *conditions)
    return min(found, key=lambda each: each.key.rank, default=None)
