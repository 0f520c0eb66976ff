"""The tables of late usage: what came after bills were made, and which memos carry it."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from meterlake.stores.state.core.tables import METADATA, RecordDay, RecordInstant, StorableText

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
