"""Transactions of balances; organizations that were there before get their bill configuration."""

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_BILL_CONFIG = "BillConfig"
_AUTHOR = "SYSTEM"


def _id(name: str, **options: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(36), **options)  # type: ignore[arg-type]


def _org(**options: bool) -> sa.Column[str]:
    return sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), **options)  # type: ignore[arg-type]


def _instant(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(27), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def upgrade() -> None:
    """Create the table and the entities."""
    op.create_table(
        "balance_transaction",
        _org(primary_key=True),
        _id("balance_id", primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
        _id("id", nullable=False, unique=True),
        _text("amount"),
        _text("description", nullable=True),
        _text("paid", nullable=True),
        sa.Column("currency_paid", sa.String(80)),
        _id("transaction_type_id"),
        _instant("applied"),
        _instant("transacted", nullable=True),
        sa.Column("entity_type", sa.String(20), nullable=False),
        _text("entity_id"),
        _instant("created"),
        _text("created_by"),
        sa.Index("balance_transaction_type", "org", "transaction_type_id"),
    )
    _create_bill_configs()


def _create_bill_configs() -> None:
    connection = op.get_bind()
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"
    organizations = connection.execute(sa.text("SELECT id FROM organization")).scalars().all()
    for org in organizations:
        values = {"org": org, "kind": _BILL_CONFIG, "id": str(uuid4()), "now": now, "by": _AUTHOR}
        connection.execute(
            sa.text(
                "INSERT INTO entity (org, kind, id, version, code, body,"
                " created, created_by, modified, modified_by)"
                " VALUES (:org, :kind, :id, 1, NULL, '{}', :now, :by, :now, :by)"
            ),
            values,
        )
        connection.execute(
            sa.text(
                "INSERT INTO entity_history (org, kind, id, version, valid_from, valid_to, body,"
                " author, created, created_by)"
                " VALUES (:org, :kind, :id, 1, :now, NULL, '{}', :by, :now, :by)"
            ),
            values,
        )
