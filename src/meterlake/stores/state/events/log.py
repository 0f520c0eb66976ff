"""The log of an organization's events in the order in which they were written, and who has read it.

Writers of one organization take turns, so a number that is larger was committed later: a reader
that remembers the number of the last event misses none.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from meterlake.model.bills.requests import BillStatus
from meterlake.model.resources.events import BILL, DELETED, UPDATED
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL as BILLS
from meterlake.stores.state.core.tables import ORGANIZATION
from meterlake.stores.state.events.event_tables import EVENT, EVENT_NOTIFICATION
from meterlake.stores.state.events.events import StoredEvent, event_of_row
from meterlake.stores.state.events.incidents import INCIDENT
from meterlake.stores.state.integrations.run_tables import EVENT_POSITION

NOTIFICATIONS: Final = "notifications"
BILL_CHANGED: Final = f"{BILL}.{UPDATED}"
_BILL_GONE: Final = f"{BILL}.{DELETED}"


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


def remove_events(reader: Reader, before: datetime, most: int) -> int:
    """Remove events that were written before an instant.

    Those stay that the reader of the log has not evaluated, that an open incident is about, and
    that say of a bill which waits for approval that it had been approved. So do those with which an
    approval ended: the log of who did what has it from them.

    Args:
        reader: Within a transaction.
        before: The instant.
        most: The most events to remove.

    Returns:
        How many there were; if as many as allowed, there may be more.
    """
    of_incidents = select(INCIDENT.c.event_id).where(INCIDENT.c.org == reader.org_id)
    waiting = select(BILLS.c.id).where(
        BILLS.c.org == reader.org_id,
        BILLS.c.status == BillStatus.PENDING.value,
        BILLS.c.locked.is_(False),
    )
    query = select(EVENT.c.id).where(
        EVENT.c.org == reader.org_id,
        EVENT.c.time < before,
        or_(EVENT.c.written.is_(None), EVENT.c.written < before),
        EVENT.c.seq <= read_position(reader),
        EVENT.c.id.not_in(of_incidents),
        ~and_(EVENT.c.name == BILL_CHANGED, EVENT.c.resource_id.in_(waiting)),
        ~ends_approval(),
    )
    ids = list(reader.connection.execute(query.order_by(EVENT.c.seq).limit(most)).scalars())
    for some in chunks_of(ids):
        of_events = EVENT_NOTIFICATION.c.event_id.in_(some)
        reader.connection.execute(delete(EVENT_NOTIFICATION).where(of_events))
        reader.connection.execute(delete(EVENT).where(EVENT.c.id.in_(some)))
    return len(ids)


def ends_approval() -> ColumnElement[bool]:
    """Whether an event says that an approved bill waits again, or is gone."""
    status = member_text(member_text(EVENT.c.body, literal("newDto")), literal("status"))
    return and_(
        EVENT.c.name.in_((BILL_CHANGED, _BILL_GONE)),
        former_text("status") == BillStatus.APPROVED.value,
        or_(status.is_(None), status == BillStatus.PENDING.value),
    )


def former_text(name: str) -> ColumnElement[str]:
    """A member of what a thing was before its event."""
    return member_text(member_text(EVENT.c.body, literal("oldDto")), literal(name))
