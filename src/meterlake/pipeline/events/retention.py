"""Events are kept for some days: the verb `forget_events`."""

from datetime import timedelta
from typing import Final

from meterlake.stores import Stores
from meterlake.stores.state.events.retention import remove_events

AUTHOR: Final = "maintenance"
# Events of one transaction: other writers of State wait for as long as it takes.
_BATCH: Final = 1000


def forget_events(stores: Stores, org_id: str) -> int:
    """Remove the events that are older than the setting says; how many that were.

    Raises:
        Unavailable: State cannot be reached.
    """
    before = stores.now() - timedelta(days=stores.settings.event_days)
    count, removed = 0, _BATCH
    while removed == _BATCH:
        with stores.state.transaction(org_id, AUTHOR) as transaction:
            removed = remove_events(transaction, before, _BATCH)
        count += removed
    return count
