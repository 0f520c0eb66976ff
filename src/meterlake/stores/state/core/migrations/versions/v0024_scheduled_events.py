"""The moments at which scheduled events happen, and events that are written later than their time."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_INSTANT = sa.String(27)
_ORGANIZATION = "organization.id"


def upgrade() -> None:
    """Create the tables; the worker looks for the moments of what there is."""
    op.add_column("event", sa.Column("written", _INSTANT))
    op.create_index("event_seq", "event", ["org", "seq"])
    op.create_index("event_written", "event", ["org", "written"])
    op.create_table(
        "scheduled_moment",
        sa.Column("org", sa.String(36), sa.ForeignKey(_ORGANIZATION), primary_key=True),
        sa.Column("config_id", sa.String(36), primary_key=True),
        sa.Column("entity_id", sa.String(36), primary_key=True),
        sa.Column("due", _INSTANT, primary_key=True),
        sa.Column("fired", _INSTANT),
        sa.Index("scheduled_moment_due", "org", "fired", "due"),
        sa.Index("scheduled_moment_entity", "org", "entity_id"),
    )
    op.create_table(
        "scheduled_scan",
        sa.Column("org", sa.String(36), sa.ForeignKey(_ORGANIZATION), primary_key=True),
        sa.Column("config_id", sa.String(36), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("zone", sa.String(80), nullable=False),
        sa.Column("last_id", sa.String(36), nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
    )


def downgrade() -> None:
    """Drop them; what happened by the calendar stays in the list of events."""
    op.drop_table("scheduled_scan")
    op.drop_table("scheduled_moment")
    op.drop_index("event_written", "event")
    op.drop_index("event_seq", "event")
    op.drop_column("event", "written")
