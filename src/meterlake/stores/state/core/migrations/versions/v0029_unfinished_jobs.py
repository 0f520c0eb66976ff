"""An index of the jobs that have not ended, of all organizations.

Revision ID: 0029
Revises: 0028
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_UNFINISHED = sa.text("finished IS NULL")


def upgrade() -> None:
    """Make the index."""
    op.create_index(
        "job_unfinished",
        "job",
        ["kind", "status", "org"],
        sqlite_where=_UNFINISHED,
        postgresql_where=_UNFINISHED,
    )


def downgrade() -> None:
    """Remove the index."""
    op.drop_index("job_unfinished", "job")
