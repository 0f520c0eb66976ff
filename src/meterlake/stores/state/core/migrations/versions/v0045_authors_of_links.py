"""Links that work once say who made them, and when."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add two columns, which say nothing of links that there are."""
    op.add_column("one_time_token", sa.Column("created", sa.String(27)))
    op.add_column("one_time_token", sa.Column("created_by", sa.Text))
