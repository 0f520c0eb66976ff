"""Acts of people that nothing else keeps: cancelled jobs, mended rejected rows."""

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; what was done before is not known."""
    op.create_table(
        "act",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("subject_id", sa.String(120), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("at", sa.String(27), nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Index("act_newest", "org", "at", "id"),
        sa.Index("act_of", "org", "subject_id"),
    )
