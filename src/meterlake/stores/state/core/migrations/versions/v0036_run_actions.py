"""What runs do in other systems, and what their entities are whatever their ids.

Revision ID: 0036
Revises: 0035
"""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

# What `BillKey.identity` gives.
_IDENTITY = """
UPDATE integration_run SET subject = (
  SELECT b.account_id || ' ' || b.bill_date || ' ' || b.frequency || ' '
         || CAST(b."interval" AS VARCHAR(20)) || ' ' || b.grouping_key
  FROM {} b WHERE b.{} = integration_run.entity_id LIMIT 1
)
"""
_UNKNOWN = " WHERE entity_type = 'Bill' AND subject IS NULL"


def upgrade() -> None:
    """Add the columns; runs of bills are told which bills they are about."""
    action = sa.Column("action", sa.String(20), nullable=False, server_default="SEND")
    op.add_column("integration_run", action)
    op.add_column("integration_run", sa.Column("subject", sa.String(200)))
    for table, column in (("bill", "id"), ("bill_version", "bill_id")):
        op.execute(_IDENTITY.format(table, column) + _UNKNOWN)
    op.execute("UPDATE integration_run SET subject = entity_id" + _UNKNOWN)
    op.create_index("integration_run_subject", "integration_run", ["org", "subject"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("integration_run_subject", "integration_run")
    op.drop_column("integration_run", "subject")
    op.drop_column("integration_run", "action")
