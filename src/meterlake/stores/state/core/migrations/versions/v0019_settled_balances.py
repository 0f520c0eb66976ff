"""Up to where balances are settled: what was left at their ends is posted."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; no balance is settled."""
    op.create_table(
        "balance_settlement",
        sa.Column("balance_id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("ends", sa.Integer, nullable=False),
        sa.Column("postings", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    """Drop it; what was posted stays."""
    op.drop_table("balance_settlement")
