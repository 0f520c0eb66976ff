"""Uploads: files that come through a signed URL, and the job of each."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "upload",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("content_type", sa.String(100), nullable=False),
        sa.Column("content_length", sa.BigInteger, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("start_until", sa.String(27), nullable=False),
        sa.Column("arrived", sa.String(27)),
        sa.Column("sha256", sa.String(64)),
        sa.Column("lease_until", sa.String(27)),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("finished", sa.String(27)),
        sa.Index("upload_newest", "org", "created", "id"),
        sa.Index("upload_waiting", "org", "status", "created"),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("upload")
