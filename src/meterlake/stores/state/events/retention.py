"""Old events go, except those that something still needs."""

from datetime import datetime
from typing import Final

from sqlalchemy import and_, delete, or_, select

from meterlake.model.bills.requests import BillStatus
from meterlake.model.resources.events import BILL, UPDATED
from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL as BILLS
from meterlake.stores.state.events.event_tables import EVENT, EVENT_NOTIFICATION
from meterlake.stores.state.events.incidents import INCIDENT
from meterlake.stores.state.events.log import read_position

_CHANGED: Final = f"{BILL}.{UPDATED}"


def remove_events(reader: Reader, before: datetime, most: int) -> int:
    """Remove events that were written before an instant.

    Those stay that the reader of the log has not evaluated, that an open incident is about, and
    that say of a bill which waits for approval that it had been approved.

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
        ~and_(EVENT.c.name == _CHANGED, EVENT.c.resource_id.in_(waiting)),
    )
    ids = list(reader.connection.execute(query.order_by(EVENT.c.seq).limit(most)).scalars())
    for some in chunks_of(ids):
        of_events = EVENT_NOTIFICATION.c.event_id.in_(some)
        reader.connection.execute(delete(EVENT_NOTIFICATION).where(of_events))
        reader.connection.execute(delete(EVENT).where(EVENT.c.id.in_(some)))
    return len(ids)
