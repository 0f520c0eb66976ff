"""What happened in an organization: events, their names, and their fields."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from meterlake.model.calculation import CalculationError, InvalidCalculation
from meterlake.model.errors import Invalid, NotFound, Required
from meterlake.model.resources import BY_KIND
from meterlake.model.resources.events import (
    CATEGORIES,
    NOTIFICATION,
    UPLOAD_ALERT,
    Event,
    category_of,
    event_types,
    fields_of,
)
from meterlake.model.resources.notifications import check_condition
from meterlake.model.values.entity import Entity, Record
from meterlake.stages.events.match import evaluate_text
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events, incidents
from meterlake.stores.state.events.events import StoredEvent

# The contract wants an instant where nobody has seen to an event: one before all others.
NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)
# By their names, because an organization may have none and this works without them.
_NOTIFICATION: Final = "NotificationConfiguration"
_SCHEDULED: Final = "ScheduledEventConfiguration"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilters:
    """What a caller asks of the list; None means any, `ids` goes with nothing else."""

    ids: tuple[str, ...] = ()
    account_id: str | None = None
    event_name: str | None = None
    event_type: str | None = None
    resource_id: str | None = None
    notification_id: str | None = None
    notification_code: str | None = None
    include_actioned: bool = False


def list_events(organization: Organization, filters: EventFilters, page: Page) -> dict[str, Any]:
    """One page of the events of so many days as the setting says, the newest first.

    Those that are asked for by id are shown as long as they are there.

    Raises:
        Invalid: The filters contradict each other, the category is unknown, the token is none.
    """
    if filters.ids and filters != EventFilters(ids=filters.ids):
        raise Invalid("ids", ",".join(filters.ids), "give ids without other filters")
    with organization.reading() as reader:
        found, token = events.page(
            reader,
            _event_filter(
                reader,
                filters,
                organization.stores.now() - timedelta(days=organization.stores.settings.event_days),
            ),
            page,
        )
    listed: dict[str, Any] = {"data": [event_document(each) for each in found]}
    return listed if token is None else {**listed, "nextToken": token}


def get_event(organization: Organization, id: str) -> dict[str, Any]:
    """One event, as long as it is there.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        return event_document(events.get(reader, id))


def mark_actioned(organization: Organization, author: str, id: str) -> dict[str, Any]:
    """Note that somebody has seen to an event; the first time counts.

    Raises:
        NotFound: There is none.
    """
    with organization.transaction(author) as transaction:
        if events.get(transaction, id).actioned is None:
            events.mark_actioned(transaction, id, transaction.now)
            # The others last until all is as it should be; an upload that failed stays failed.
            incidents.end_by_ledger(transaction, UPLOAD_ALERT, id)
        return event_document(events.get(transaction, id))


def list_event_types(organization: Organization) -> dict[str, Any]:
    """The names of the events that can happen in an organization."""
    with organization.reading() as reader:
        return {"events": event_types(scheduled_events(reader))}


def check_event_name(organization: Organization, name: str) -> None:
    """Refuse the name of an event that cannot happen.

    Raises:
        NotFound: There is no event of that name.
    """
    if name not in list_event_types(organization)["events"]:
        raise NotFound("event type", name)


def list_event_fields(organization: Organization, name: str | None = None) -> dict[str, Any]:
    """The fields of one kind of event, or of all, and the type of each.

    Raises:
        Invalid: There is no event of that name.
    """
    with organization.reading() as reader:
        scheduled = scheduled_events(reader)
    names = event_types(scheduled) if name is None else [name]
    return {"events": {each: fields_of(each, scheduled) for each in names}}


def event_document(stored: StoredEvent) -> dict[str, Any]:
    """An event as it is shown; that of a notification says of which one it is."""
    event = stored.event
    found = {
        "id": stored.id,
        "eventName": event.name,
        "eventTime": stored.time,
        "dtActioned": stored.actioned or NEVER,
        "m3terEvent": _m3ter_event(event),
    }
    names = ("notificationId", "notificationCode") if event.category == NOTIFICATION else ()
    return found | {name: event.data.get(name) for name in names}


def _m3ter_event(event: Event) -> dict[str, Any]:
    found = {
        "eventName": event.name,
        "eventData": event.data,
        "eventType": category_of(event),
        "baseEventId": event.base_id,
    }
    return {name: value for name, value in found.items() if value is not None}


def _event_filter(reader: Reader, filters: EventFilters, since: datetime) -> events.EventFilter:
    if filters.ids:
        return events.EventFilter(ids=filters.ids, actioned=True)
    if filters.event_type is not None and filters.event_type not in CATEGORIES:
        raise Invalid("eventType", filters.event_type, f"it must be one of {', '.join(CATEGORIES)}")
    known = CATEGORIES.get(filters.event_type or "", ())
    if filters.event_name is None:
        names = known
    elif known and filters.event_name not in known:
        # Nothing has both; an event without a name does not exist.
        names = ("",)
    else:
        names = (filters.event_name,)
    # The notifications of which one must have gone out; None if none must.
    conditions = [
        ids
        for ids in (
            None if filters.notification_id is None else {filters.notification_id},
            None
            if filters.notification_code is None
            else {
                record.id
                for record in _all(reader, _NOTIFICATION)
                if getattr(record.entity, "code", None) == filters.notification_code
            },
        )
        if ids is not None
    ]
    notifications = (tuple(sorted(set.intersection(*conditions))) or ("",)) if conditions else None
    return events.EventFilter(
        names=names,
        category=filters.event_type,
        account_id=filters.account_id,
        resource_id=filters.resource_id,
        notification_ids=notifications,
        actioned=filters.include_actioned,
        since=since,
    )


def scheduled_events(reader: Reader) -> dict[str, str]:
    """The names of the organization's scheduled events, and the entity of each."""
    found: list[Any] = [record.entity for record in _all(reader, _SCHEDULED)]
    return {each.name: each.entity for each in found}


def _all(reader: Reader, kind: str) -> list[Record[Entity]]:
    return reader.all(BY_KIND[kind].entity) if kind in BY_KIND else []


def evaluate_calculation(
    organization: Organization,
    calculation: str | None,
    *,
    event_name: str | None = None,
    event_id: str | None = None,
) -> dict[str, Any]:
    """Whether a calculation can be evaluated: for a type of events, or for one event.

    Args:
        organization: The organization.
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
    with organization.reading() as reader:
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
