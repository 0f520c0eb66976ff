"""What happens in an organization: the names of events, what they carry, and their fields."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY, RESOURCES, Resource, event_fields
from meterlake.model.resources.event_fields import ALERTS, FAILURES, OTHERS
from meterlake.model.values.entity import Record

CREATED: Final = "created"
UPDATED: Final = "updated"
DELETED: Final = "deleted"
# Which sides of the change an event of each kind carries.
SIDES: Final[Mapping[str, tuple[str, ...]]] = {
    CREATED: ("new",),
    UPDATED: ("new", "old"),
    DELETED: ("old",),
}

ORGANIZATION: Final = "configuration.organization"
BILL: Final = "billing.bill"
BILL_JOB: Final = "billing.billjob"
STATEMENT_JOB: Final = "billing.statementjob"
VALIDATION_FAILURE: Final = "ingest.validation.failure"
UPLOAD_ALERT: Final = "ingest.upload.alert"
FRESHNESS_ALERT: Final = "ingest.freshness.alert"
OVERDUE_FILE_ALERT: Final = "ingest.overduefile.alert"
REJECT_RATE_ALERT: Final = "ingest.rejectrate.alert"
BOOKS_ALERT: Final = "ingest.books.alert"
LATE_USAGE_DECISION: Final = "bills.lateusage.decision"
VERIFICATION_ALERT: Final = "bills.verification.alert"
SCHEDULED: Final = "scheduled."
# The categories of the list's filter `eventType`, and the names of their events. Those of
# notifications have the name of the event that made the notification go out.
INTEGRATION: Final = "IntegrationEvent"
NOTIFICATION: Final = "Notification"
CATEGORIES: Final[Mapping[str, tuple[str, ...]]] = {
    INTEGRATION: tuple(name for name in FAILURES if name.startswith("integration.")),
    "IngestValidationFailure": (VALIDATION_FAILURE,),
    "DataExportJobFailure": ("dataexport.job.failure",),
    NOTIFICATION: (),
}


_ORGANIZATIONS: Final = "no operation changes or removes an organization; its settings have events"
_ALERTS: Final = "there are no alerts of configuration; what is wrong are events `ingest.….alert`"
_BANDS: Final = "a band has no life of its own: the event of its pricing says so"
_SINGLETON: Final = "every organization has one"
_JOBS: Final = "jobs are kept"
# Names of the published list that nothing makes happen, and why. They may be named, and are not offered.
NEVER_HAPPEN: Final[Mapping[str, str]] = {
    "billing.balanceamount.deleted": "a balance with transactions is kept",
    "billing.billconfig.deleted": _SINGLETON,
    "billing.billjob.deleted": _JOBS,
    "billing.statementjob.deleted": _JOBS,
    **{f"configuration.alert.{action}": _ALERTS for action in SIDES},
    "configuration.customfield.deleted": _SINGLETON,
    "configuration.organization.deleted": _ORGANIZATIONS,
    "configuration.organization.updated": _ORGANIZATIONS,
    "configuration.organizationconfig.deleted": _SINGLETON,
    **{f"configuration.pricingband.{action}": _BANDS for action in SIDES},
}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        name: `configuration.account.created`.
        kind: What it happened to: the kind of an entity, or `Bill`, `Job` and the like.
        resource_id: The id of that.
        data: What is known about it, `newDto` and `oldDto`; never a secret.
        account_id: The account that it concerns, if it concerns one.
        category: `Notification` or `IntegrationEvent` of what follows from another event; it makes
            no notification go out.
        base_id: The id of that event.
        time: When it happened; None: when it is written.
    """

    name: str
    kind: str
    resource_id: str | None
    data: Mapping[str, Any]
    account_id: str | None = None
    category: str | None = None
    base_id: str | None = None
    time: datetime | None = None


def category_of(event: Event) -> str | None:
    """The category of an event that the list's filter `eventType` knows; None for most."""
    by_name = (each for each, names in CATEGORIES.items() if event.name in names)
    return event.category or next(by_name, None)


def change(stem: str, new: object | None, old: object | None) -> str:
    """The name of the event of a change from `old` to `new`; None is what is not there."""
    if old is None:
        return f"{stem}.{CREATED}"
    return f"{stem}.{DELETED if new is None else UPDATED}"


def data(new: Mapping[str, Any] | None, old: Mapping[str, Any] | None) -> dict[str, Any]:
    """The data of the event of a change."""
    return {name: side for name, side in (("newDto", new), ("oldDto", old)) if side is not None}


def account_of(record: Record[Any]) -> str | None:
    """The account that an entity belongs to; an account itself is its own."""
    resource = BY_ENTITY.get(type(record.entity))
    field = "account_id" if resource is None else resource.account
    return record.id if field == "id" else getattr(record.entity, field, None)


def event_types(scheduled: Mapping[str, str] | None = None) -> list[str]:
    """The names of all events that can happen.

    Args:
        scheduled: The names of the organization's scheduled events, and the entity of each.
    """
    return sorted(set(published_types(scheduled)) - set(NEVER_HAPPEN))


def published_types(scheduled: Mapping[str, str] | None = None) -> list[str]:
    """The names that notifications may have, also of events that never happen."""
    changes = (f"{stem}.{action}" for stem in _stems() for action in SIDES)
    return sorted({*changes, *FAILURES, *ALERTS, *(scheduled or {})})


def follows_from_another(name: str) -> bool:
    """Whether such an event follows from another one, so that nothing follows from it."""
    return name in CATEGORIES[INTEGRATION]


def event_kind(name: str) -> type[Any] | None:
    """The class of what an event is about, if it is configuration."""
    row = _rows().get(name.rpartition(".")[0])
    return None if row is None else row.entity


def fields_of(name: str, scheduled: Mapping[str, str] | None = None) -> dict[str, str]:
    """The fields of an event, `new.x` and `old.x`, and the type of each.

    Raises:
        Invalid: There is no event of that name.
    """
    own = {**FAILURES, **ALERTS}
    if name in own:
        return dict(_side("new", own[name]))
    if scheduled and name in scheduled:
        return dict(_side("new", _fields_of_entity(scheduled[name])))
    stem, _, action = name.rpartition(".")
    if action not in SIDES or stem not in _stems():
        raise Invalid("eventName", name, "it must be one of the organization's event types")
    fields = _fields(stem)
    return {path: type_ for side in SIDES[action] for path, type_ in _side(side, fields)}


def _side(side: str, fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"{side}.{name}", type_) for name, type_ in fields.items())


def _rows() -> dict[str, Resource]:
    return {row.event: row for row in RESOURCES if row.event is not None}


def _stems() -> set[str]:
    return {*_rows(), *OTHERS}


def _fields(stem: str) -> dict[str, str]:
    row = _rows().get(stem)
    return event_fields.of_other(stem) if row is None else event_fields.of_resource(row)


def entities_with_events() -> list[str]:
    """The names of what has events of its changes: `Account`, `bill`, `pricingband`."""
    rows = _rows()
    kinds = {row.kind for row in rows.values()}
    lower_kinds = {kind.lower() for kind in kinds}
    happening = {name.rpartition(".")[0] for name in event_types()}
    others = {_last(stem) for stem in _stems() & happening}
    return sorted(kinds | {each for each in others if each not in lower_kinds}, key=str.lower)


def dates_of(entity: str) -> list[str]:
    """The fields of what a scheduled event is about that hold dates or instants."""
    stem = stem_of(entity)
    row = _rows().get(stem or "")
    if row is None:
        return [name for name in _fields_of_entity(entity) if name in event_fields.DATES]
    return event_fields.dates_of_resource(row)


def _fields_of_entity(entity: str) -> dict[str, str]:
    """The fields of what a scheduled event is about, by a name such as `Bill`."""
    stem = stem_of(entity)
    return dict(event_fields.ENVELOPE) if stem is None else _fields(stem)


def stem_of(entity: str) -> str | None:
    """The stem of the events of what a scheduled event is about: `billing.bill` of `Bill`."""
    rows = _rows()
    for stem in sorted(_stems()):
        if entity.lower() in {_last(stem), rows[stem].kind.lower() if stem in rows else ""}:
            return stem
    return None


def _last(stem: str) -> str:
    return stem.rpartition(".")[2]
