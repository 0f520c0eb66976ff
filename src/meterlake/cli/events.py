"""`meterlake events` and `webhooks`: what happened, what somebody has seen to, and whom it is sent to."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meterlake.stores import Organization


_PAGE: Final = 100
WebhookName = Annotated[str, Parameter(name="WEBHOOK", required=True)]
_CHANGE: Final = ("config:update", "webhookdestination")
_POLL_S: Final = 0.2
_WAITING: Final = frozenset({"WAITING", "STARTED"})


def register(app: App) -> None:
    """Add the commands."""
    events = App(name="events", help="Events: rejected measurements, alerts, changes.")
    events.command(list_events, name="list")
    events.command(show)
    events.command(action)
    app.command(events)
    webhooks = App(name="webhooks", help="Webhooks: test one, and send missed runs once more.")
    webhooks.command(ping)
    webhooks.command(replay)
    app.command(webhooks)


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


def ping(
    webhook: WebhookName,
    /,
    *,
    wait: Annotated[float, Parameter(show_default=True)] = 20,
    options: Options = NO_OPTIONS,
) -> int:
    """Let the worker send a signed test to a webhook, and show the answer.

    The exit code is 1 if the webhook did not take it.

    Example: `meterlake webhooks ping chat`

    Args:
        webhook: Its code, its name or its id.
        wait: Seconds to wait for the answer.
    """
    from meterlake.pipeline.integrations.runs import ping_webhook

    with options.open() as organization:
        id_ = _find_webhook(organization, webhook)
        author = options.permitted(organization, _CHANGE, [id_])
        run = ping_webhook(organization, author, id_)
        found = _await_end(organization, run["id"], wait)
    tries = found.pop("tries")
    options.output.record({**found, "tries": tries} if options.json else found)
    if not options.json:
        options.output.rows(tries, ("number", "dtStarted=time", "statusCode=answer", "error"))
    if found["status"] in _WAITING:
        options.output.note("it waits: does a worker run? `meterlake serve` starts one")
    return 0 if found["status"] == "COMPLETE" else 1


def replay(
    webhook: Annotated[str | None, Parameter(name="WEBHOOK")] = None,
    /,
    *,
    since: Annotated[str | None, Parameter(show_default=False)] = None,
    status: Annotated[str | None, Parameter(show_default=False)] = None,
    run: Annotated[str | None, Parameter(show_default=False)] = None,
    options: Options = NO_OPTIONS,
) -> None:
    """Send runs once more: one, or all runs of a webhook since an instant.

    Each is a new run with an id of its own, so that receivers take it.

    Example: `meterlake webhooks replay chat --since 2026-10-01T00:00:00Z --status ERROR`

    Args:
        webhook: Its code, its name or its id.
        since: Runs of this instant or later.
        status: Only runs that ended with this status: ERROR, TIMEOUT_LIMIT_EXCEEDED, DISABLED,
            COMPLETE.
        run: Instead: the id of one run.
    """
    from meterlake.cli.integrations import status_of
    from meterlake.model.errors import Invalid, Required
    from meterlake.pipeline.integrations.runs import replay_run, replay_webhook

    with options.open() as organization:
        if run is not None:
            if {webhook, since, status} != {None}:
                raise Invalid("--run", run, "give it alone: it is one run of one webhook")
            author = options.permitted(organization, ("config:update", "integrationrun"), [run])
            options.output.record(replay_run(organization, author, run))
            return
        if webhook is None or since is None:
            raise Required("--run" if webhook is None else "--since")
        id_ = _find_webhook(organization, webhook)
        given = (_instant(since), () if status is None else (status_of(status),))
        author = options.permitted(organization, _CHANGE, [id_])
        options.output.record(replay_webhook(organization, author, id_, *given))


def _find_webhook(organization: "Organization", name: str) -> str:
    from meterlake.model.configuration.integrations import WebhookDestination
    from meterlake.model.errors import NotFound

    with organization.reading() as reader:
        known = reader.all(WebhookDestination)
    found = [each for each in known if name in {each.id, each.entity.code, each.entity.name}]
    if len(found) == 1:
        return found[0].id
    names = ", ".join(each.entity.code or each.entity.name for each in known)
    hint = (
        f"name one of these: {names}" if known else "there is none: add one as a webhookDestination"
    )
    raise NotFound("webhook", name, f"; {hint}")


def _await_end(organization: "Organization", id: str, seconds: float) -> dict[str, Any]:
    import time

    from meterlake.pipeline.integrations.runs import run_history

    end = time.monotonic() + seconds
    while True:
        found = run_history(organization, id)
        if found["status"] not in _WAITING or time.monotonic() >= end:
            return found
        time.sleep(_POLL_S)


def _instant(text: str) -> Any:
    from datetime import UTC, datetime

    from meterlake.model.errors import Invalid

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(
            "since", text, "it must be a date or an instant such as 2026-10-01T00:00:00Z"
        ) from None
    return found.replace(tzinfo=found.tzinfo or UTC)
