"""Changes of the configuration are proposed, and reviewed before they are made."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the proposals and the acts on them."""
    op.create_table(
        "change_proposal",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        *(
            sa.Column(name, sa.Text, nullable=False)
            for name in ("documents", "seen", "changes", "prices")
        ),
        sa.Index("change_proposal_newest", "org", "created", "id"),
    )
    op.create_table(
        "change_proposal_act",
        sa.Column("org", sa.String(36), primary_key=True),
        sa.Column("proposal_id", sa.String(36), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("at", sa.String(27), nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("comment", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["org", "proposal_id"], ["change_proposal.org", "change_proposal.id"]
        ),
    )
