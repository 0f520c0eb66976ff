"""Events, and which notifications they made go out."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create both tables."""
    serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "event",
        sa.Column("seq", serial, primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(36), nullable=False, unique=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("name", sa.String(400), nullable=False),
        sa.Column("kind", sa.String(80), nullable=False),
        sa.Column("resource_id", sa.String(200)),
        sa.Column("account_id", sa.String(36)),
        sa.Column("time", sa.String(27), nullable=False),
        sa.Column("actioned", sa.String(27)),
        sa.Column("body", sa.Text, nullable=False),
        sa.Index("event_time", "org", "time", "seq"),
        sa.Index("event_name", "org", "name", "time", "seq"),
        sa.Index("event_account", "org", "account_id", "time", "seq"),
        sa.Index("event_resource", "org", "resource_id", "time", "seq"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "event_notification",
        sa.Column("notification_id", sa.String(36), primary_key=True),
        sa.Column("event_id", sa.String(36), sa.ForeignKey("event.id"), primary_key=True),
        sa.Index("event_notification_event", "event_id"),
    )
