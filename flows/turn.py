"""Whether a flow run is to begin nothing more: others wait for their turn, or the worker ends."""

from threading import Event
from typing import Final

# Who runs flows for the worker sets it; nobody does for a run that is started by hand.
OVER: Final = Event()


def is_over() -> bool:
    """Whether to end after the file at hand."""
    return OVER.is_set()
