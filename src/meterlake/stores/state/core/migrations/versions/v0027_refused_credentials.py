"""Which destinations refused the credentials that they were sent last."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table: nobody knows of earlier refusals, and the next try shows them."""
    op.create_table(
        "refused_credentials",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("destination_id", sa.String(36), primary_key=True),
        sa.Column("refused", sa.String(27), nullable=False),
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("refused_credentials")
