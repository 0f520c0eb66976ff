"""The order of lists: the newest first, within a kind."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index("entity_newest", "entity", ["org", "kind", "created", "id"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("entity_newest", "entity")
