"""The snapshots of bills: which one is a period's oldest, without reading its bills."""

import sqlalchemy as sa
from alembic import op

from meterlake.stores.state.core.json_columns import member_text

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and take over what the bills pin."""
    op.add_column("bill", sa.Column("snapshot", sa.BigInteger))
    bill = sa.table("bill", sa.column("snapshot", sa.BigInteger), sa.column("pins", sa.Text))
    pinned = sa.cast(member_text(bill.c.pins, sa.literal("snapshot")), sa.BigInteger)
    op.execute(bill.update().values(snapshot=pinned))
    op.drop_index("bill_period", "bill")
    op.create_index("bill_period", "bill", ["org", "period", "frequency", "snapshot"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("bill_period", "bill")
    op.create_index("bill_period", "bill", ["org", "period"])
    op.drop_column("bill", "snapshot")
