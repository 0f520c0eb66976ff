"""Bills that are to be calculated again, since one before draws something else."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; no bill is outdated."""
    op.add_column("bill", sa.Column("outdated_by", sa.String(36)))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("bill", "outdated_by")
