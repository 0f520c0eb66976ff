"""Bucket inboxes, and who takes which of their objects."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "inbox",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("afterwards", sa.String(20), nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Index("inbox_org", "org", "created"),
    )
    op.create_table(
        "inbox_claim",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("inbox", sa.String(36), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("lease_until", sa.String(27)),
        sa.Column("received", sa.String(27), nullable=False),
        sa.Column("report", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("finished", sa.String(27)),
        sa.Index("inbox_claim_due", "inbox", "status", "lease_until"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("inbox_claim")
    op.drop_table("inbox")
