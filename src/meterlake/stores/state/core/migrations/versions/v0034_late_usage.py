"""Late usage of bills, and the memos that carry it.

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "late_usage",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("bill_id", sa.String(36), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("bill_date", sa.String(10), nullable=False),
        sa.Column("frequency", sa.String(20), nullable=False),
        sa.Column("interval", sa.Integer, nullable=False),
        sa.Column("grouping_key", sa.String(36), nullable=False),
        sa.Column("period", sa.String(40), nullable=False),
        sa.Column("currency", sa.String(80), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("bill_version", sa.Integer, nullable=False),
        sa.Column("sources", sa.Text, nullable=False),
        sa.Column("difference", sa.Text),
        sa.Column("new_version", sa.Integer),
        sa.Column("reason", sa.Text),
        sa.Column("found", sa.String(27), nullable=False),
        sa.Column("decided", sa.String(27)),
    )
    op.create_index("late_usage_bill", "late_usage", ["org", "bill_id"])
    op.create_index("late_usage_account", "late_usage", ["org", "account_id", "bill_date"])
    op.create_index("late_usage_status", "late_usage", ["org", "status"])
    op.create_table(
        "late_usage_line",
        sa.Column(
            "late_usage_id",
            sa.String(36),
            sa.ForeignKey("late_usage.id"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("line_id", sa.String(36)),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("amount", sa.Text, nullable=False),
        sa.Column("memo_bill_id", sa.String(36)),
        sa.Column("memo_id", sa.String(36)),
        sa.Column("memo_amount", sa.Text),
        sa.Column("memo_currency", sa.String(80)),
    )
    op.create_index("late_usage_line_memo", "late_usage_line", ["memo_bill_id"])


def downgrade() -> None:
    """Remove them; the memos stay on their bills."""
    op.drop_table("late_usage_line")
    op.drop_table("late_usage")
