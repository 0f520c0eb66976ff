"""The verb `deliver`: what happened makes runs of integrations, and those that are due are sent."""

from collections.abc import Callable

from meterlake.model.configuration.integration_systems import systems
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.integrations.sender import send_due_runs
from meterlake.stores import Stores


def prepare_runs(stores: Stores, org_id: str, stop: Callable[[], bool] = lambda: False) -> int:
    """Have what happened in an organization make notifications and runs of integrations.

    Args:
        stores: The home's stores.
        org_id: The organization.
        stop: Whether to begin no further batch.

    Returns:
        How many events were evaluated.

    Raises:
        Unavailable: State cannot be reached.
    """
    taken = {name: each.entity_types for name, each in systems().items()}
    return read_log(stores, org_id, stop, taken)


def deliver_due(stores: Stores) -> None:
    """Send the runs of all organizations that are due.

    Raises:
        Unavailable: State cannot be reached.
    """
    send_due_runs(stores)
