"""Jobs say which flow run of Prefect began their last attempt."""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column, which says nothing of jobs that there are."""
    op.add_column("job", sa.Column("flow_run", sa.String(36)))
