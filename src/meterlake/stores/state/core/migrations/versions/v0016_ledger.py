"""The ledger: what balances and commitments got and gave, from one account to another.

A transaction of a balance becomes a posting; what people wrote to it stays beside the posting.
"""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from meterlake.model.values import wire

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_BATCH = 1000
_NOTE_COLUMNS = ("description", "paid", "currency_paid", "transaction_type_id", "transacted")


def _org(**options: bool) -> "sa.Column[str]":
    return sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), **options)  # type: ignore[arg-type]


def upgrade() -> None:
    """Create the ledger, and make postings of transactions."""
    posting = op.create_table(
        "posting",
        sa.Column(
            "sequence", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True
        ),
        sa.Column("id", sa.String(36), nullable=False, unique=True),
        _org(nullable=False),
        sa.Column("from_account", sa.Text, nullable=False),
        sa.Column("to_account", sa.Text, nullable=False),
        sa.Column("amount", sa.Text, nullable=False),
        sa.Column("currency", sa.String(80), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("source_id", sa.String(36), nullable=False),
        sa.Column("bill_id", sa.String(36)),
        sa.Column("bill_version", sa.Integer),
        sa.Column("job_id", sa.String(36)),
        sa.Column("reverses", sa.String(36), unique=True),
        sa.Column("applied", sa.String(27)),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
    )
    note = op.create_table(
        "balance_note",
        sa.Column("id", sa.String(36), primary_key=True),
        _org(nullable=False),
        *_note_columns(),
        sa.Column("entity_type", sa.String(20), nullable=False),
        sa.Column("entity_id", sa.Text, nullable=False),
        sa.Column("due", sa.String(27)),
    )
    for rows in _batches(op.get_bind().execute(sa.text(_TRANSACTIONS)).mappings().all()):
        op.bulk_insert(posting, [_posting(row) for row in rows])
        op.bulk_insert(note, [_note(row) for row in rows])
    op.create_index("posting_source", "posting", ["org", "source_id", "sequence"])
    op.create_index("posting_bill", "posting", ["bill_id"])
    op.create_index("balance_note_type", "balance_note", ["org", "transaction_type_id"])
    # A run of a schedule is booked once; nothing else is due.
    op.create_index("balance_note_run", "balance_note", ["org", "entity_id", "due"], unique=True)
    op.drop_table("balance_transaction")


def _note_columns() -> "Iterator[sa.Column[Any]]":
    yield sa.Column("description", sa.Text)
    yield sa.Column("paid", sa.Text)
    yield sa.Column("currency_paid", sa.String(80))
    yield sa.Column("transaction_type_id", sa.String(36))
    yield sa.Column("transacted", sa.String(27))


# A balance with transactions cannot be deleted.
_TRANSACTIONS = """
SELECT t.*, e.body FROM balance_transaction AS t
JOIN entity AS e ON e.org = t.org AND e.kind = 'Balance' AND e.id = t.balance_id
ORDER BY t.created, t.balance_id, t.sequence
"""


def _batches(rows: Any) -> Iterator[Any]:
    for start in range(0, len(rows), _BATCH):
        yield rows[start : start + _BATCH]


def _posting(row: Any) -> dict[str, Any]:
    balance = wire.loads(row["body"])
    accounts = [f"customer:{balance['accountId']}", f"balance:{row['balance_id']}"]
    is_debit = row["amount"].startswith("-")
    return {
        "id": row["id"],
        "org": row["org"],
        "from_account": accounts[is_debit],
        "to_account": accounts[not is_debit],
        "amount": row["amount"].removeprefix("-"),
        "currency": balance["currency"],
        "kind": "manual" if is_debit else "credit",
        "source_id": row["balance_id"],
        # One without a date of its own was applied when it was booked.
        "applied": None if row["applied"] == row["created"] else row["applied"],
        "created": row["created"],
        "created_by": row["created_by"],
    }


def _note(row: Any) -> dict[str, Any]:
    names = ("id", "org", *_NOTE_COLUMNS, "entity_type", "entity_id")
    return {name: row[name] for name in names}


def downgrade() -> None:
    """Make transactions of postings again; what bills drew becomes transactions of bills."""
    op.create_table(
        "balance_transaction",
        _org(primary_key=True),
        sa.Column("balance_id", sa.String(36), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.String(36), nullable=False, unique=True),
        sa.Column("amount", sa.Text, nullable=False),
        *_note_columns(),
        sa.Column("applied", sa.String(27), nullable=False),
        sa.Column("entity_type", sa.String(20), nullable=False),
        sa.Column("entity_id", sa.Text, nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Index("balance_transaction_type", "org", "transaction_type_id"),
    )
    op.execute(_RESTORE)
    op.drop_table("balance_note")
    op.drop_table("posting")


_RESTORE = """
INSERT INTO balance_transaction (org, balance_id, sequence, id, amount, description, paid,
    currency_paid, transaction_type_id, applied, transacted, entity_type, entity_id, created,
    created_by)
SELECT p.org, p.source_id,
    ROW_NUMBER() OVER (PARTITION BY p.org, p.source_id ORDER BY p.sequence), p.id,
    CASE WHEN p.to_account LIKE 'balance:%' OR p.to_account LIKE 'rollover:%' THEN p.amount
         ELSE '-' || p.amount END,
    n.description, n.paid, n.currency_paid, n.transaction_type_id, COALESCE(p.applied, p.created),
    n.transacted,
    COALESCE(n.entity_type, CASE WHEN p.bill_id IS NULL THEN 'SCHEDULER' ELSE 'BILL' END),
    COALESCE(n.entity_id, p.bill_id, p.source_id), p.created, p.created_by
FROM posting AS p LEFT JOIN balance_note AS n ON n.id = p.id
WHERE p.kind <> 'rollover' AND p.from_account NOT LIKE 'commitment:%'
    AND p.to_account NOT LIKE 'commitment:%'
"""
