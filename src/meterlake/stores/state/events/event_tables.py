"""The tables of events, which are kept for ever."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text

from meterlake.stores.state.core.tables import METADATA, InstantText

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
    Column("name", String(400), nullable=False),
    Column("kind", String(80), nullable=False),
    Column("resource_id", String(200)),
    Column("account_id", String(36)),
    Column("time", InstantText, nullable=False),
    Column("actioned", InstantText),
    Column("body", Text, nullable=False),
    # Of what follows from another event: which kind it is, and the event itself.
    Column("category", String(40)),
    Column("base_id", String(36)),
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
