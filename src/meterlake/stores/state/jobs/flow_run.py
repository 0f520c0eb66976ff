"""Which flow run of Prefect does the work at hand; nothing here knows Prefect."""

from collections.abc import Callable


def _none() -> str | None:
    return None


_ask: Callable[[], str | None] = _none


def ask_for_flow_runs(ask: Callable[[], str | None]) -> Callable[[], str | None]:
    """Have jobs say which flow run works on them; what runs flows calls it once.

    Args:
        ask: Gives the id of the flow run whose thread calls it; None outside of flows.

    Returns:
        What was asked before.
    """
    global _ask
    before, _ask = _ask, ask
    return before


def current_flow_run() -> str | None:
    """The id of the flow run that does this; None if none does."""
    return _ask()
