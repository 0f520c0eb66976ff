"""The charges that schedules of balances made: each stands for its service period once."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table; no schedule has made a charge before."""
    op.create_table(
        "scheduled_charge",
        sa.Column("charge_id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("schedule_id", sa.String(36), nullable=False),
        sa.Column("service_start", sa.String(27), nullable=False),
        sa.Column("service_end", sa.String(27), nullable=False),
        sa.Column("due", sa.String(27), nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
    )
    # A service period is charged for once.
    columns = ["org", "schedule_id", "service_start"]
    op.create_index("scheduled_charge_run", "scheduled_charge", columns, unique=True)


def downgrade() -> None:
    """Drop it; the charges stay."""
    op.drop_table("scheduled_charge")
