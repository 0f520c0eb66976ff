"""Who had an inbox looked into.

Revision ID: 0038
Revises: 0037
"""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of inboxes that are there nobody knows who."""
    op.add_column("inbox", sa.Column("author", sa.Text))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("inbox", "author")
