"""What runs of integrations wait in: one queue for each destination, in the order of due times."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_QUEUE = "COALESCE(destination_id, config_id, destination)"
_DUE = """
UPDATE integration_run SET due = (
  SELECT COALESCE(lease_until, not_before, created) FROM job
  WHERE job.id = integration_run.id AND job.status IN ('PENDING', 'RUNNING')
)
"""


def upgrade() -> None:
    """Add the columns and their index; what waits goes on waiting."""
    op.add_column("integration_run", sa.Column("queue", sa.String(80)))
    op.add_column("integration_run", sa.Column("due", sa.String(27)))
    op.execute(f"UPDATE integration_run SET queue = {_QUEUE}")
    op.execute(_DUE)
    waits = sa.text("due IS NOT NULL")
    op.create_index(
        "integration_run_due",
        "integration_run",
        ["queue", "due"],
        sqlite_where=waits,
        postgresql_where=waits,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("integration_run_due", "integration_run")
    op.drop_column("integration_run", "due")
    op.drop_column("integration_run", "queue")
