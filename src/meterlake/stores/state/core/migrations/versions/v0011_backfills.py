"""Backfills: who corrected stored measurements, when, why, and what it changed."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "backfill",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("wanted", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("snapshot", sa.BigInteger, nullable=False),
        sa.Column("applied", sa.BigInteger),
        sa.Column("summary", sa.Text, nullable=False),
        sa.Column("history", sa.Text, nullable=False),
        sa.Index("backfill_newest", "org", "created", "id"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("backfill")
