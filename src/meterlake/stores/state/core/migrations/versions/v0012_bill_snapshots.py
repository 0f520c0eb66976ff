"""The snapshots of bills: which one is a period's oldest, without reading its bills."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and take over what the bills pin."""
    op.add_column("bill", sa.Column("snapshot", sa.BigInteger))
    pins = "pins" if op.get_bind().dialect.name == "sqlite" else "pins::jsonb"
    op.execute(f"UPDATE bill SET snapshot = CAST({pins} ->> 'snapshot' AS BIGINT)")
    op.drop_index("bill_period", "bill")
    op.create_index("bill_period", "bill", ["org", "period", "frequency", "snapshot"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("bill_period", "bill")
    op.create_index("bill_period", "bill", ["org", "period"])
    op.drop_column("bill", "snapshot")
