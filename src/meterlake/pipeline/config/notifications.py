"""What notifications need of other entities, beyond what the rules of each say."""

from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.errors import StillReferenced
from meterlake.model.rules.dependents import display_name
from meterlake.stores.state import Reader


def refuse_notified_event(reader: Reader, id: str) -> None:
    """Refuse to delete a scheduled event that a notification names.

    Raises:
        StillReferenced: One does, and no other scheduled event has the name.
    """
    events = list(reader.all(ScheduledEventConfiguration))
    name = next(each.entity.name for each in events if each.id == id)
    if any(each.entity.name == name and each.id != id for each in events):
        return
    for record in reader.all(NotificationConfiguration):
        if record.entity.event_name == name:
            raise StillReferenced("ScheduledEventConfiguration", id, display_name(record))
