"""The tables of events, and of the moments at which scheduled events happen."""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
)

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText

# SQLite counts by itself only in a column of exactly this type.
_SERIAL: Final = BigInteger().with_variant(Integer(), "sqlite")


def _org() -> Column[str]:
    return Column("org", String(36), ForeignKey("organization.id"), nullable=False)


# The sequence never runs backwards within an organization, whose writers take turns.
EVENT: Final = Table(
    "event",
    METADATA,
    Column("seq", _SERIAL, primary_key=True, autoincrement=True),
    Column("id", String(36), nullable=False, unique=True),
    _org(),
    Column("name", StorableText(400), nullable=False),
    Column("kind", String(80), nullable=False),
    Column("resource_id", StorableText(200)),
    Column("account_id", String(36)),
    Column("time", InstantText, nullable=False),
    Column("actioned", InstantText),
    Column("body", StorableText, nullable=False),
    # Of what follows from another event: which kind it is, and the event itself.
    Column("category", String(40)),
    Column("base_id", String(36)),
    # When it was written, if that is not its time.
    Column("written", InstantText),
    # Readers follow an organization's events in this order.
    Index("event_seq", "org", "seq"),
    Index("event_written", "org", "written"),
    Index("event_time", "org", "time", "seq"),
    Index("event_name", "org", "name", "time", "seq"),
    Index("event_account", "org", "account_id", "time", "seq"),
    Index("event_resource", "org", "resource_id", "time", "seq"),
    sqlite_autoincrement=True,
)

# Which event made which notification go out.
EVENT_NOTIFICATION: Final = Table(
    "event_notification",
    METADATA,
    Column("notification_id", String(36), primary_key=True),
    Column("event_id", String(36), ForeignKey("event.id"), primary_key=True),
    Index("event_notification_event", "event_id"),
)

# When dates fall due, and when their scheduled events were written: once each.
SCHEDULED_MOMENT: Final = Table(
    "scheduled_moment",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("config_id", String(36), primary_key=True),
    Column("entity_id", String(36), primary_key=True),
    Column("due", InstantText, primary_key=True),
    Column("fired", InstantText),
    Index("scheduled_moment_due", "org", "fired", "due"),
    Index("scheduled_moment_entity", "org", "entity_id"),
)

# How far the entities of a scheduled event have been looked at since it was created or changed.
SCHEDULED_SCAN: Final = Table(
    "scheduled_scan",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("config_id", String(36), primary_key=True),
    # What it was looked at for: the version of the configuration, and the organization's zone.
    Column("version", Integer, nullable=False),
    Column("zone", StorableText(80), nullable=False),
    # The id of the entity that was looked at last.
    Column("last_id", String(36), nullable=False),
    Column("complete", Boolean, nullable=False),
)
