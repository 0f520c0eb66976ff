"""Trying a calculation of a notification, before it is saved."""

from typing import Any

from meterlake.model.calculation import CalculationError, InvalidCalculation
from meterlake.model.errors import Required
from meterlake.model.resources.events import fields_of
from meterlake.model.resources.notification_rules import check_condition
from meterlake.pipeline.events.events import scheduled_events
from meterlake.stages.events.match import evaluate_text
from meterlake.stores import Stores
from meterlake.stores.state.events import events


def evaluate_calculation(
    stores: Stores,
    org_id: str,
    calculation: str | None,
    *,
    event_name: str | None = None,
    event_id: str | None = None,
) -> dict[str, Any]:
    """Whether a calculation can be evaluated: for a type of events, or for one event.

    Args:
        stores: The home's stores.
        org_id: The organization.
        calculation: The calculation.
        event_name: The type of events; it decides if an event is given, too.
        event_id: An event that has happened.

    Returns:
        `success`, and if it cannot be evaluated the `errorMessage`. Whether the calculation is
        true of the event is not said.

    Raises:
        Invalid: There is no such type of events.
        NotFound: There is no such event.
        Required: Neither is given.
    """
    event = None
    with stores.state.reading(org_id) as reader:
        if event_name is None:
            if event_id is None:
                raise Required("eventName")
            event = events.get(reader, event_id).event
            event_name = event.name
        fields = fields_of(event_name, scheduled_events(reader))
    text = (calculation or "").strip()
    try:
        check_condition(text, fields)
        if event is not None:
            evaluate_text(text, event.data)
    except (CalculationError, InvalidCalculation) as error:
        return {"success": False, "errorMessage": str(error)}
    return {"success": True, "errorMessage": None}
