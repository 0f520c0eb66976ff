"""Usage of months that no bill charges for.

Revision ID: 0035
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "unbilled_usage",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("month", sa.String(7), primary_key=True),
        sa.Column("account_id", sa.String(36), primary_key=True),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("snapshot", sa.BigInteger, nullable=False),
        sa.Column("found", sa.String(27), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("unbilled_usage")
