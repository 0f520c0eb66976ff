"""The bills that marketplaces are told of."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table: of each bill in it something was reported."""
    made = op.create_table(
        "marketplace_bill",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("dimension", sa.String(300), primary_key=True),
        sa.Column("bill_id", sa.String(36), primary_key=True),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Index("marketplace_bill_account", "org", "account_id", "dimension"),
    )
    names = ["org", "dimension", "bill_id", "account_id"]
    record = sa.table("marketplace_record", *(sa.column(each, sa.String) for each in names))
    column = record.c
    known = sa.select(
        column.org, column.dimension, column.bill_id, sa.func.min(column.account_id)
    ).group_by(column.org, column.dimension, column.bill_id)
    op.execute(sa.insert(made).from_select(names, known))


def downgrade() -> None:
    """Drop it; bills of which nothing was reported are forgotten."""
    op.drop_table("marketplace_bill")
