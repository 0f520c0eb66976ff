"""Statements of bills, and the jobs that make them.

Revision ID: 0033
Revises: 0032
"""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "statement_job",
        sa.Column(
            "id",
            sa.String(36),
            sa.ForeignKey("job.id", name="statement_job_job"),
            primary_key=True,
        ),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("bill_id", sa.String(36), nullable=False),
    )
    op.create_index("statement_job_bill", "statement_job", ["org", "bill_id"])
    op.create_table(
        "bill_statement",
        sa.Column("bill_id", sa.String(36), sa.ForeignKey("bill.id"), primary_key=True),
        sa.Column("format", sa.String(4), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("calculated", sa.String(27), nullable=False),
        sa.Column("made", sa.String(27), nullable=False),
        sa.Column("filtered", sa.Boolean, nullable=False),
        sa.Column("outdated", sa.Boolean, nullable=False, server_default=sa.false()),
    )
    op.create_index("bill_statement_org", "bill_statement", ["org"])


def downgrade() -> None:
    """Remove them, and the jobs; the files stay."""
    op.drop_table("bill_statement")
    op.drop_table("statement_job")
    op.execute("DELETE FROM job WHERE kind = 'statement'")
