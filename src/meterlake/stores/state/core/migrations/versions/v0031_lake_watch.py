"""When each lake was last looked at for alerts.

Revision ID: 0031
Revises: 0030
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; every lake is looked at once more."""
    op.create_table(
        "lake_watch",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("looked", sa.String(27), nullable=False),
        sa.Column("due", sa.String(27)),
        sa.Column("mark", sa.String(80), nullable=False),
        sa.Column("limits", sa.Text, nullable=False),
        sa.Column("configured", sa.Text, nullable=False),
    )


def downgrade() -> None:
    """Remove it."""
    op.drop_table("lake_watch")
