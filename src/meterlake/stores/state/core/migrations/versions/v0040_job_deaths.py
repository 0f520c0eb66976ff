"""How often the process died that worked on a job.

Revision ID: 0040
Revises: 0039
"""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nobody counted before."""
    op.add_column("job", sa.Column("deaths", sa.Integer, nullable=False, server_default="0"))


def downgrade() -> None:
    """Remove it."""
    op.drop_column("job", "deaths")
