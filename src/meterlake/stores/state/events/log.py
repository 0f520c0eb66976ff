"""The log of an organization's events in the order in which they were written, and who has read it.

Writers of one organization take turns, so a number that is larger was committed later: a reader
that remembers the number of the last event misses none.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, insert, literal, select, update

from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ORGANIZATION
from meterlake.stores.state.events.event_tables import EVENT
from meterlake.stores.state.events.events import StoredEvent, event_of_row
from meterlake.stores.state.integrations.run_tables import EVENT_POSITION

NOTIFICATIONS: Final = "notifications"


class LogEntry(NamedTuple):
    """An event without what it carries."""

    seq: int
    id: str
    name: str
    category: str | None


def read_position(reader: Reader, name: str = NOTIFICATIONS) -> int:
    """The number of the last event that a reader has done; 0 before the first one."""
    query = select(EVENT_POSITION.c.seq).where(
        EVENT_POSITION.c.org == reader.org_id, EVENT_POSITION.c.reader == name
    )
    return reader.connection.execute(query).scalar() or 0


def write_position(reader: Reader, seq: int, name: str = NOTIFICATIONS) -> None:
    """Note how far a reader is, in the transaction of what it made of the events."""
    key = {"org": reader.org_id, "reader": name}
    conditions = [EVENT_POSITION.c[column] == value for column, value in key.items()]
    changed = reader.connection.execute(update(EVENT_POSITION).where(*conditions).values(seq=seq))
    if changed.rowcount == 0:
        reader.connection.execute(insert(EVENT_POSITION), {**key, "seq": seq})


def entries_after(reader: Reader, seq: int, most: int) -> list[LogEntry]:
    """The next events of the log."""
    query = select(EVENT.c.seq, EVENT.c.id, EVENT.c.name, EVENT.c.category)
    query = query.where(EVENT.c.org == reader.org_id, EVENT.c.seq > seq)
    rows = reader.connection.execute(query.order_by(EVENT.c.seq).limit(most))
    return [LogEntry(*row) for row in rows]


def organizations_behind(
    connection: Connection, since: int | None = None, name: str = NOTIFICATIONS
) -> list[str]:
    """The organizations with events that a reader has not done.

    Args:
        connection: Within a transaction.
        since: Look only at events behind this number, of all organizations; None: at all of them.
        name: The reader.
    """
    position = EVENT_POSITION.c
    mine = (position.org == EVENT.c.org) & (position.reader == name)
    done = select(position.seq).where(mine).scalar_subquery()
    is_new = EVENT.c.seq > func.coalesce(done, 0)
    if since is None:
        # One look at the index for each organization.
        new = select(literal(1)).where(EVENT.c.org == ORGANIZATION.c.id, is_new)
        query = select(ORGANIZATION.c.id).where(new.exists())
    else:
        query = select(EVENT.c.org).where(EVENT.c.seq > since, is_new)
    return list(connection.execute(query.distinct()).scalars())


def newest_number(connection: Connection) -> int:
    """The number of the newest event of all organizations; 0 if there is none."""
    return connection.scalar(select(func.max(EVENT.c.seq))) or 0


def read_events(reader: Reader, ids: Iterable[str]) -> dict[str, StoredEvent]:
    """Some events by id."""
    found: dict[str, StoredEvent] = {}
    for some in chunks_of(ids):
        query = select(EVENT).where(EVENT.c.org == reader.org_id, EVENT.c.id.in_(some))
        found |= {row.id: event_of_row(row) for row in reader.connection.execute(query)}
    return found
