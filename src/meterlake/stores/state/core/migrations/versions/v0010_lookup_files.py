"""Files of lookup tables: what the job of a file is for, and the data that a file is meant for."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; all files so far hold measurements."""
    kind = sa.Column("kind", sa.String(20), nullable=False, server_default="measurements")
    op.add_column("upload", kind)
    op.add_column("lookup_job", sa.Column("data_version", sa.BigInteger))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("lookup_job", "data_version")
    op.drop_column("upload", "kind")
