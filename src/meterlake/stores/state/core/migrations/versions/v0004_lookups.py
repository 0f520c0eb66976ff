"""The data of lookup table revisions, and the jobs that move it."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _id(name: str, **options: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(36), **options)  # type: ignore[arg-type]


def _org(**options: bool) -> sa.Column[str]:
    return sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), **options)  # type: ignore[arg-type]


def upgrade() -> None:
    """Create both tables."""
    op.create_table(
        "lookup_item",
        _org(primary_key=True),
        _id("revision_id", primary_key=True),
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "lookup_job",
        _id("id", primary_key=True),
        _org(nullable=False),
        _id("revision_id", nullable=False),
        _id("destination_id"),
        sa.Column("type", sa.String(20), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Index("lookup_job_revision", "org", "revision_id", "created"),
    )
