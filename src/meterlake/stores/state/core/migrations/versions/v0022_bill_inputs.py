"""What bills were calculated from, so that nobody calculates them from the same once more."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of no bill is known what it was calculated from."""
    op.add_column("bill", sa.Column("inputs", sa.String(80)))


def downgrade() -> None:
    """Drop it."""
    op.drop_column("bill", "inputs")
