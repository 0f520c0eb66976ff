"""What the files of measurements were when bills were made from them."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; the next bills fill it."""
    op.create_table(
        "lake_file",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("path", sa.String(400), primary_key=True),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64)),
        sa.Column("noted", sa.String(27), nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("lake_file")
