"""Events over HTTP."""

from typing import Any, Final

from meterlake.api.responses.integrations import EvaluateCalculationRequest
from meterlake.api.server.call import ORGANIZATION, PAGE_DEFAULT, Call, Handler, Operation
from meterlake.api.server.readable_fields import permit
from meterlake.model.values.problems import read
from meterlake.pipeline.events import events
from meterlake.stores.state.core.pages import Page

_PAGE_MAX: Final = 100


async def list_events(call: Call) -> Any:
    """One page of events."""
    query = call.query
    filters = events.EventFilters(
        ids=tuple(query.texts("ids")),
        account_id=query.text("accountId"),
        event_name=query.text("eventName"),
        event_type=query.text("eventType"),
        resource_id=query.text("resourceId"),
        notification_id=query.text("notificationId"),
        notification_code=query.text("notificationCode"),
        include_actioned=query.flag("includeActioned"),
    )
    size = query.integer("pageSize", PAGE_DEFAULT, least=1, most=_PAGE_MAX)
    page = Page(size or PAGE_DEFAULT, call.next_token)
    return await call.run(events.list_events, call.organization, filters, page)


async def get_event(call: Call) -> Any:
    """One event."""
    return await call.run(events.get_event, call.organization, call.path["id"])


async def mark_actioned(call: Call) -> Any:
    """Note that somebody has seen to an event."""
    return await call.run(events.mark_actioned, call.organization, call.author, call.path["id"])


async def list_event_types(call: Call) -> Any:
    """The names of events."""
    return await call.run(events.list_event_types, call.organization)


async def list_event_fields(call: Call) -> Any:
    """The fields of events."""
    name = call.query.text("eventName")
    return await call.run(events.list_event_fields, call.organization, name)


async def evaluate_calculation(call: Call) -> Any:
    """Whether a calculation can be evaluated for a type of events, or for one event."""
    request = read(EvaluateCalculationRequest, await call.document())
    if request.event_name is None and request.event_id is not None:
        # What a calculation has for an answer tells what the event says.
        permit(call, "config:retrieve", "event", request.event_id)
    return await call.run(
        events.evaluate_calculation,
        call.organization,
        request.calculation,
        event_name=request.event_name,
        event_id=request.event_id,
    )


_EVENTS: Final = f"{ORGANIZATION}/events"


def _operation(id_: str, path: str, handler: Handler) -> Operation:
    return Operation(id_, "GET", path, "config:retrieve", "event", handler)


OPERATIONS: Final = (
    _operation("ListEvents", _EVENTS, list_events),
    _operation("ListEventTypes", f"{_EVENTS}/types", list_event_types),
    _operation("ListEventFields", f"{_EVENTS}/fields", list_event_fields),
    Operation(
        "MarkEventActioned",
        "POST",
        f"{_EVENTS}/{{id}}/actioned",
        "config:update",
        "event",
        mark_actioned,
    ),
    Operation(
        "EvaluateCalculation",
        "POST",
        f"{ORGANIZATION}/notifications/evaluate",
        "config:retrieve",
        "notificationconfiguration",
        evaluate_calculation,
    ),
    _operation("GetEvent", f"{_EVENTS}/{{id}}", get_event),
)
