"""`meterlake events`: what happened, and what somebody has seen to."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE: Final = 100


def register(app: App) -> None:
    """Add the commands."""
    events = App(name="events", help="Events: rejected measurements, alerts, changes.")
    events.command(list_events, name="list")
    events.command(show)
    events.command(action)
    app.command(events)


def list_events(
    *,
    name: str | None = None,
    event_type: Annotated[str | None, Parameter(name="--type")] = None,
    actioned: Annotated[bool, Parameter(negative="")] = False,
    limit: Limit = 20,
    options: Options = NO_OPTIONS,
) -> None:
    """List the events of the last 28 days that you have not marked as seen, the newest first.

    Example: `meterlake events list --type IngestValidationFailure`

    Args:
        name: Only events of this name: ingest.validation.failure, ingest.freshness.alert.
        event_type: Only events of this type: IngestValidationFailure, IntegrationEvent,
            DataExportJobFailure, Notification.
        actioned: Also events that you have marked as seen.
        limit: The largest number that you want to see.
    """
    from meterlake.pipeline.events.events import EventFilters

    filters = EventFilters(event_name=name, event_type=event_type, include_actioned=actioned)
    found = list(_find_events(options, filters, limit))
    if options.json:
        for event in found:
            options.output.line(event)
    else:
        columns = ("!id", "eventName=event", "message", "?eventTime=time")
        empty = "No events." if actioned else "No events that nobody has seen to."
        options.output.rows(map(_brief, found), columns, empty=empty)


def show(id: str, /, *, options: Options = NO_OPTIONS) -> None:
    """Show one event with all its members.

    Example: `meterlake events show ID`

    Args:
        id: The event's id, as in the list.
    """
    from meterlake.pipeline.events.events import get_event

    with options.open() as organization:
        event = get_event(organization, id)
    options.output.record(event if options.json else _brief(event) | _event_details(event))


def action(
    *ids: Annotated[str, Parameter(name="ID", required=True)], options: Options = NO_OPTIONS
) -> None:
    """Mark events as seen; the list leaves them out from then on.

    Example: `meterlake events action ID`

    Args:
        ids: The events' ids, as in the list.
    """
    from meterlake.pipeline.events.events import mark_actioned

    with options.open() as organization:
        author = options.permitted(organization, ("config:update", "event"), ids)
        done = [mark_actioned(organization, author, each) for each in ids]
    if options.json:
        for event in done:
            options.output.line(event)
    else:
        options.output.note(f"{len(done):,} marked")


def _find_events(options: Options, filters: Any, limit: int) -> "Iterator[dict[str, Any]]":
    from meterlake.pipeline.events.events import check_event_name
    from meterlake.pipeline.events.events import list_events as listed
    from meterlake.stores.state.core.pages import Page

    token, left = None, limit
    with options.open() as organization:
        while left > 0:
            page = listed(organization, filters, Page(min(left, _PAGE), token))
            yield from page["data"]
            left -= len(page["data"])
            token = page.get("nextToken")
            if token is None:
                break
        if left == limit and filters.event_name is not None:
            check_event_name(organization, filters.event_name)


def _event_details(event: dict[str, Any]) -> dict[str, Any]:
    """What the event carries; of a change, what is new."""
    data = event["m3terEvent"]["eventData"]
    found: dict[str, Any] = data.get("newDto", data.get("oldDto", {}))
    return found


def _brief(event: dict[str, Any]) -> dict[str, Any]:
    details = _event_details(event)
    about = (details.get(name) for name in ("message", "name", "code", "accountCode", "id"))
    return {
        "eventTime": event["eventTime"].replace(microsecond=0),
        "eventName": event["eventName"],
        "message": next((each for each in about if each), None),
        "id": event["id"],
    }
