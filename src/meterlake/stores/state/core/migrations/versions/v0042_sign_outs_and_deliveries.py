"""Organizations keep when they ended the sign-ins of a person, and find deliveries by their event."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add a column, which says nothing so far, and an index."""
    op.add_column("membership", sa.Column("signed_out", sa.String(27)))
    op.create_index("integration_run_event", "integration_run", ["org", "event_id"])
