"""Requests that were sent with a key act once."""

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a table, which is empty."""
    op.create_table(
        "idempotency_key",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("request_sha256", sa.String(64), nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("answer", sa.Text),
    )
    op.create_index("idempotency_key_created", "idempotency_key", ["created"])
