"""Notifications and scheduled events: what they are, and which conditions and offsets they may have."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from meterlake.model.calculation import (
    CalculationScope,
    InvalidCalculation,
    Node,
    Type,
    check,
    parse,
)
from meterlake.model.calculation.mistakes import nearest
from meterlake.model.calculation.tree import Chain, Literal, Name, walk
from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.errors import Invalid
from meterlake.model.resources.resource import IDS, Filter, Resource
from meterlake.model.rules.proposed import Proposed, changes, check_dependents
from meterlake.model.values.entity import Configuration

_NAME: Final = re.compile(r"scheduled\.([a-z]+)\.([^\s.]+)")
_OTHER_SIDE: Final = {"new": "old", "old": "new"}
_TYPES: Final = {
    "string": Type.TEXT,
    "double": Type.NUMBER,
    "int": Type.NUMBER,
    "boolean": Type.BOOLEAN,
}


def event_exists(new: Proposed[NotificationConfiguration]) -> None:
    """The event is one of the published list, or one of the organization's scheduled events."""
    # Here, as the events are made of RESOURCES, which have this rule.
    from meterlake.model.resources.events import event_types, published_types  # noqa: PLC0415

    scheduled = _scheduled_events(new.configuration)
    name, known = new.entity.event_name, event_types(scheduled)
    if name not in published_types(scheduled):
        raise Invalid(
            "eventName",
            name,
            f"it must be one of the organization's event types{_hint(name, known)}",
        )


def calculation_holds_or_not(new: Proposed[NotificationConfiguration]) -> None:
    """The calculation names fields of its event, and says true or false."""
    text = new.entity.calculation or ""
    if not text.strip():
        return
    from meterlake.model.resources.events import fields_of  # noqa: PLC0415

    fields = fields_of(new.entity.event_name, _scheduled_events(new.configuration))
    try:
        check_condition(text, fields)
    except InvalidCalculation as error:
        raise error.as_invalid("calculation", text) from None


def check_condition(text: str, fields: Mapping[str, str]) -> None:
    """Refuse a calculation that cannot be evaluated for events with some fields.

    Args:
        text: The calculation.
        fields: The fields, `new.x` and `old.x`, and the type of each as events know types. The
            other side of each may be named, too: where an event has none, its fields are null.

    Raises:
        InvalidCalculation: It is no calculation, names what there is not, or says neither true
            nor false.
    """
    tree, both = parse(text), dict(fields)
    for name, type_ in fields.items():
        side, _, field = name.partition(".")
        both.setdefault(f"{_OTHER_SIDE.get(side, side)}.{field}", type_)
    asked = {id(name) for name in _compared_with_null(tree)}
    for node in walk(tree):
        if not isinstance(node, Name) or both.get(node.key, "string") in _TYPES:
            continue
        if id(node) not in asked:
            rule = f"`{node.key}` is of the type {both[node.key]}, which is compared with null"
            raise InvalidCalculation(f"{rule} only", node.column)
    # Where they may stand, it is only asked whether they are there.
    names = {name: _TYPES.get(type_, Type.TEXT) for name, type_ in both.items()}
    check(tree, CalculationScope(names), Type.BOOLEAN)


def _compared_with_null(tree: Node) -> Iterator[Node]:
    """What stands beside `== null` or `!= null`, or behind `null ==`."""
    for node in walk(tree):
        match node:
            case Chain(first=first, rest=(("==" | "!=", second),)):
                yield from (first,) if _is_null(second) else (second,) if _is_null(first) else ()


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def scheduled_for_a_date(new: Proposed[ScheduledEventConfiguration]) -> None:
    """The entity is one that has events, and the field is one of its dates or instants."""
    from meterlake.model.resources.events import dates_of, entities_with_events  # noqa: PLC0415

    entity, field = new.entity.entity, new.entity.field
    known = entities_with_events()
    if entity.lower() not in {each.lower() for each in known}:
        rule = (
            f"it must be an entity that has events, such as Bill or Contract{_hint(entity, known)}"
        )
        raise Invalid("entity", entity, rule)
    dates = dates_of(entity)
    if field not in dates:
        raise Invalid(
            "field",
            field,
            f"it must be a date of {entity}: {', '.join(dates)}{_hint(field, dates)}",
        )


def scheduled_name_says_entity(new: Proposed[ScheduledEventConfiguration]) -> None:
    """The name is `scheduled.<entity>.<name of its own>`, and the entity is the one it looks at."""
    match = _NAME.fullmatch(new.entity.name)
    entity = new.entity.entity.lower()
    if match is None or match.group(1) != entity:
        raise Invalid(
            "name", new.entity.name, f"it must be scheduled.{entity}.<a name without dots>"
        )


def notified_event_stays(new: Proposed[ScheduledEventConfiguration]) -> None:
    """A scheduled event that a notification names keeps what the notification needs of it."""
    if not changes(new, "name", "entity"):
        return
    assert new.before is not None
    users = new.configuration.where(NotificationConfiguration, "event_name", new.before.name)
    for rule in (event_exists, calculation_holds_or_not):
        check_dependents(users, rule, new.configuration, "name", new.entity.name)


def _scheduled_events(configuration: Configuration) -> dict[str, str]:
    """The names of the organization's scheduled events, and the entity of each."""
    records = configuration.all(ScheduledEventConfiguration)
    return {record.entity.name: record.entity.entity for record in records}


def _hint(given: str, known: Iterable[str]) -> str:
    meant = nearest(given, known)
    return f"; did you mean {meant}?" if meant else ""


ROWS: Final = (
    Resource(
        name="notificationConfigurations",
        path="notifications/configurations",
        entity=NotificationConfiguration,
        rules=(event_exists, calculation_holds_or_not),
        filters=(IDS, Filter("active", kind="flag"), Filter("eventName")),
        schema="Notification",
        permission="notificationconfiguration",
        operations={"create": "CreateNotification", "update": "UpdateNotification"},
    ),
    Resource(
        name="scheduledEventConfigurations",
        path="scheduledevents/configurations",
        entity=ScheduledEventConfiguration,
        key=("name",),
        rules=(
            scheduled_for_a_date,
            scheduled_name_says_entity,
            notified_event_stays,
        ),
        schema="ScheduledEventConfiguration",
        permission="scheduledeventconfiguration",
        operations={
            "create": "CreateScheduledEventConfiguration",
            "update": "UpdateScheduledEventConfiguration",
        },
    ),
)
