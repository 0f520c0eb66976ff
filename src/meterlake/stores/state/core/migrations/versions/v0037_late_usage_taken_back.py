"""What memos of late usage carried and others took back; and which calculation a decision is about.

Revision ID: 0037
Revises: 0036
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of rows that are there nobody knows more."""
    op.add_column("late_usage", sa.Column("ledger_at", sa.BigInteger))
    op.add_column("late_usage_line", sa.Column("taken_back", sa.String(36)))
    op.create_index("late_usage_line_taken_back", "late_usage_line", ["taken_back"])


def downgrade() -> None:
    """Remove them."""
    op.drop_index("late_usage_line_taken_back", "late_usage_line")
    op.drop_column("late_usage_line", "taken_back")
    op.drop_column("late_usage", "ledger_at")
