"""Usage of months that no bill charges for, as the last run that billed an account's month found it."""

from collections.abc import Collection, Iterable, Iterator
from datetime import date
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Integer,
    String,
    Table,
    delete,
    literal,
    select,
)

from meterlake.model.bills.unbilled import Unpriced
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, METADATA, InstantText, StorableText
from meterlake.stores.state.core.transaction import Transaction

# One row for each that a run reports. The account may be one that there is not.
UNBILLED_USAGE: Final = Table(
    "unbilled_usage",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("month", String(7), primary_key=True),
    Column("account_id", String(36), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("snapshot", BigInteger, nullable=False),
    Column("found", InstantText, nullable=False),
    Column("body", StorableText, nullable=False),
)


def replace_unbilled_usage(
    transaction: Transaction,
    month: Month,
    found: Iterable[Unpriced],
    snapshot: int,
    account_ids: Collection[str] | None = None,
) -> None:
    """Write down what no bill of a month charges for, in place of what was known of it.

    Args:
        transaction: Of the organization.
        month: The month that was billed.
        found: What the run reports.
        snapshot: The lake's snapshot that it was made from.
        account_ids: The accounts that it was about; all if None.
    """
    table = UNBILLED_USAGE.c
    known = delete(UNBILLED_USAGE).where(table.org == transaction.org_id, table.month == str(month))
    if account_ids is None:
        transaction.connection.execute(known)
    for ids in chunks_of(account_ids or ()):
        transaction.connection.execute(known.where(table.account_id.in_(ids)))
    at = {"org": transaction.org_id, "month": str(month), "found": transaction.now}
    rows = [
        {
            **at,
            "account_id": each.account_id,
            "position": position,
            "snapshot": snapshot,
            "body": wire.dumps_sorted(each.to_wire()),
        }
        for position, each in enumerate(found)
    ]
    insert_rows(transaction.connection, UNBILLED_USAGE, rows)


def read_first_days(reader: Reader, bill_ids: Iterable[str]) -> dict[str, date]:
    """The first days of what bills charge for, by their ids; of bills that there are not, nothing."""
    first_day = member_text(BILL.c.body, literal("startDate"))
    found: dict[str, date] = {}
    for ids in chunks_of(sorted(set(bill_ids))):
        query = select(BILL.c.id, first_day).where(BILL.c.org == reader.org_id, BILL.c.id.in_(ids))
        rows = reader.connection.execute(query).tuples()
        found |= {id_: date.fromisoformat(day) for id_, day in rows if day}
    return found


def read_unbilled_usage(reader: Reader) -> Iterator[dict[str, Any]]:
    """All of it as documents, by month and account."""
    order = (UNBILLED_USAGE.c[name] for name in ("month", "account_id", "position"))
    query = select(UNBILLED_USAGE).where(UNBILLED_USAGE.c.org == reader.org_id).order_by(*order)
    for row in reader.connection.execute(query):
        yield {
            **wire.loads(row.body),
            "month": row.month,
            "snapshot": row.snapshot,
            "found": row.found,
        }
