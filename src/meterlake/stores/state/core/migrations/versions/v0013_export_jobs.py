"""Jobs that wait: of which schedule and when due, how far they are, and whether they are to stop."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_COLUMNS = ("version", "author", "schedule_id", "due", "progress", "cancel_asked")


def upgrade() -> None:
    """Add the columns; jobs so far began when they were made."""
    op.add_column("job", sa.Column("version", sa.Integer, nullable=False, server_default="1"))
    op.add_column("job", sa.Column("author", sa.Text))
    op.add_column("job", sa.Column("schedule_id", sa.String(36)))
    op.add_column("job", sa.Column("due", sa.String(27)))
    op.add_column("job", sa.Column("progress", sa.Text))
    op.add_column(
        "job", sa.Column("cancel_asked", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.create_index("job_due", "job", ["schedule_id", "due"], unique=True)
    op.create_index("job_of_kind", "job", ["org", "kind", "status", "created"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("job_of_kind", "job")
    op.drop_index("job_due", "job")
    for name in _COLUMNS:
        op.drop_column("job", name)
