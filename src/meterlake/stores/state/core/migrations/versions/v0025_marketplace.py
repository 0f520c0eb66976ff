"""What was reported to marketplaces, hour by hour."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table: nothing was reported before."""
    op.create_table(
        "marketplace_record",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("customer", sa.String(200), primary_key=True),
        sa.Column("dimension", sa.String(300), primary_key=True),
        sa.Column("hour", sa.String(27), primary_key=True),
        sa.Column("system", sa.String(80), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("bill_id", sa.String(36), nullable=False),
        sa.Column("run_key", sa.String(400), nullable=False),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("accepted", sa.Boolean, nullable=False),
        sa.Index("marketplace_record_account", "org", "account_id", "dimension"),
        sa.Index("marketplace_record_bill", "org", "bill_id"),
    )


def downgrade() -> None:
    """Drop it; the marketplace keeps what it was told."""
    op.drop_table("marketplace_record")
