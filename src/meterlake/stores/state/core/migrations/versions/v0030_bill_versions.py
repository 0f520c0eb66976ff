"""What bills said before, what each was calculated from, and the order of transactions.

What is there has the number 0: it was written before the first transaction that has a number. Bills
that were made before do not know which transactions their calculation saw.
"""

from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

_CHUNK = 5_000
_VERSION = ("org", "kind", "id", "version", "body", "created_by", "author", "began")
_POSTING = (
    *("id", "org", "from_account", "to_account", "amount", "currency", "kind", "source_id"),
    *("bill_id", "bill_version", "job_id", "reverses", "created_by", "began"),
)


def upgrade() -> None:
    """Make the tables and columns; of everything there the digest is what it says now."""
    op.add_column("organization", _number("transactions"))
    op.add_column("entity_history", _number("began"))
    op.add_column("entity_history", sa.Column("ended", sa.BigInteger))
    op.add_column("entity_history", sa.Column("digest", sa.String(64)))
    op.execute("UPDATE entity_history SET ended = 0 WHERE valid_to IS NOT NULL")
    op.create_index("entity_history_ended", "entity_history", ["org", "ended"])
    op.add_column("posting", _number("began"))
    op.add_column("posting", sa.Column("digest", sa.String(64)))
    _write_digests(
        "entity_history", ("org", "kind", "id", "version"), _VERSION, ("valid_from", "created")
    )
    _write_digests("posting", ("sequence",), _POSTING, ("applied", "created"))
    op.add_column("bill", _number("began"))
    op.add_column(
        "bill", sa.Column("content_version", sa.Integer, nullable=False, server_default="1")
    )
    op.add_column("bill", sa.Column("locked_in", sa.BigInteger))
    op.add_column("bill", sa.Column("calculation_id", sa.String(36)))
    op.add_column("bill", sa.Column("ledger_at", sa.BigInteger))
    op.execute("UPDATE bill SET content_version = version")
    op.execute("UPDATE bill SET locked_in = 0 WHERE locked")
    op.create_index("bill_calculated", "bill", ["org", "calculation_id"])
    _create_tables()


def downgrade() -> None:
    """Drop them."""
    for table in ("bill_version_line", "bill_version", "bill_calculation"):
        op.drop_table(table)
    op.drop_index("bill_calculated", "bill")
    op.drop_index("entity_history_ended", "entity_history")
    for table, columns in (
        ("bill", ("began", "content_version", "locked_in", "calculation_id", "ledger_at")),
        ("posting", ("began", "digest")),
        ("entity_history", ("began", "ended", "digest")),
        ("organization", ("transactions",)),
    ):
        for column in columns:
            op.drop_column(table, column)


def _number(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default="0")


def _create_tables() -> None:
    op.create_table(
        "bill_calculation",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("snapshot", sa.BigInteger, nullable=False),
        sa.Column("selection", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
    )
    op.create_index("bill_calculation_newest", "bill_calculation", ["org", "created"])
    op.create_table(
        "bill_version",
        sa.Column("bill_id", sa.String(36), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("bill_date", sa.String(10), nullable=False),
        sa.Column("frequency", sa.String(20), nullable=False),
        sa.Column("interval", sa.Integer, nullable=False),
        sa.Column("grouping_key", sa.String(36), nullable=False),
        sa.Column("period", sa.String(40), nullable=False),
        sa.Column("currency", sa.String(80), nullable=False),
        *(sa.Column(each, sa.Text, nullable=False) for each in ("total", "body", "pins")),
        sa.Column("snapshot", sa.BigInteger),
        sa.Column("began", sa.BigInteger, nullable=False),
        sa.Column("ended", sa.BigInteger, nullable=False),
        sa.Column("calculation_id", sa.String(36)),
        sa.Column("ledger_at", sa.BigInteger),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("modified", sa.String(27), nullable=False),
        sa.Column("modified_by", sa.Text, nullable=False),
        sa.Column("replaced", sa.String(27), nullable=False),
        sa.Column("replaced_by", sa.Text, nullable=False),
    )
    op.create_index("bill_version_account", "bill_version", ["org", "account_id", "ended"])
    op.create_index("bill_version_dated", "bill_version", ["org", "bill_date"])
    op.create_table(
        "bill_version_line",
        sa.Column("bill_id", sa.String(36), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        *(sa.Column(each, sa.Text, nullable=False) for each in ("key", "body", "pins")),
    )


def _write_digests(
    name: str, key: tuple[str, ...], names: tuple[str, ...], instants: tuple[str, ...]
) -> None:
    columns = dict.fromkeys((*key, *names, *instants))
    table = sa.table(name, *map(sa.column, (*columns, "digest")))
    connection = op.get_bind()
    order = [table.c[each] for each in key]
    query = sa.select(*(table.c[each] for each in columns)).order_by(*order).limit(_CHUNK)
    same = (table.c[each] == sa.bindparam(f"key_{each}") for each in key)
    statement = sa.update(table).where(*same).values(digest=sa.bindparam("found"))
    rows = connection.execute(query).mappings().all()
    while rows:
        found = [
            {f"key_{each}": row[each] for each in key} | {"found": _digest(row, names, instants)}
            for row in rows
        ]
        connection.execute(statement, found)
        last = sa.tuple_(*(rows[-1][each] for each in key))
        rows = connection.execute(query.where(sa.tuple_(*order) > last)).mappings().all()


def _digest(row: Any, names: Iterable[str], instants: Iterable[str]) -> str:
    values = [row[name] for name in names]
    texts = (row[name] for name in instants)
    values += [None if each is None else datetime.fromisoformat(each).timestamp() for each in texts]
    return sha256(repr(values).encode()).hexdigest()
