"""Scheduled events: so many days after a date of an entity, or before it, each moment once.

The reader of the event log notes when the entities that changed fall due. What there was before a
configuration, its change, or a change of the organization's zone is looked at page by page. So a
look that finds nothing due asks one index, however many entities there are.

When a moment has come, the entity is read again: if its date has moved the moment moves with it,
and what is deleted has no events. Whoever is late writes what fell due meanwhile.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Final, Protocol

from sqlalchemy import select

from meterlake.model.configuration.notifications import ScheduledEventConfiguration
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.resources import RESOURCES, Resource
from meterlake.model.resources.events import DELETED, SIDES, Event, account_of, data, stem_of
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import zone
from meterlake.stages.events.due import due_moment
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills.events import bill_documents
from meterlake.stores.state.core.tables import BILL, ENTITY
from meterlake.stores.state.events import moments
from meterlake.stores.state.events.events import documents_of, write_all
from meterlake.stores.state.events.log import LogEntry, read_events
from meterlake.stores.state.events.moments import MomentKey, Scan

AUTHOR: Final = "scheduled events"
# Entities, or events, of one transaction: other writers of State wait for as long as it takes.
_PAGE: Final = 500

_Configuration = Record[ScheduledEventConfiguration]


@dataclass(frozen=True, slots=True)
class CurrentEntity:
    """An entity as it is now: what an event says of it."""

    kind: str
    account_id: str | None
    document: Mapping[str, Any]


class EntitySource(Protocol):
    """Reads what scheduled events are about."""

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        """The next ids in the order of ids."""

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        """Those that there are of some, by id."""


@dataclass(frozen=True, slots=True)
class _Resources:
    """Reads configuration of one kind."""

    resource: Resource

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        query = select(ENTITY.c.id).where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == self.resource.kind,
            ENTITY.c.id > last_id,
        )
        rows = reader.connection.execute(query.order_by(ENTITY.c.id).limit(most))
        return list(rows.scalars())

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        records = reader.matching(self.resource.entity, ENTITY.c.id.in_(ids))
        documents = documents_of(reader, records)
        return {
            each.id: CurrentEntity(self.resource.kind, account_of(each), documents[each.id])
            for each in records
        }


class _Bills:
    """Reads bills."""

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        query = select(BILL.c.id).where(BILL.c.org == reader.org_id, BILL.c.id > last_id)
        return list(reader.connection.execute(query.order_by(BILL.c.id).limit(most)).scalars())

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        found = bill_documents(reader, ids)
        return {
            id_: CurrentEntity("Bill", each.get("accountId"), each) for id_, each in found.items()
        }


Sources = Mapping[str, EntitySource]
# What has dates and is read here, by the stem of its events.
SOURCES: Final[Sources] = {
    **{str(each.event): _Resources(each) for each in RESOURCES if each.event is not None},
    "billing.bill": _Bills(),
}


class Schedule:
    """The scheduled events of an organization, by what they are about."""

    def __init__(self, reader: Reader) -> None:
        self.by_id: dict[str, _Configuration] = {
            each.id: each for each in reader.all(ScheduledEventConfiguration)
        }
        self.by_stem: dict[str, list[_Configuration]] = {}
        for each in self.by_id.values():
            self.by_stem.setdefault(stem_of(each.entity.entity) or "", []).append(each)
        self.zone = ""
        if self.by_id:
            [config] = reader.all(OrganizationConfig)
            self.zone = config.entity.timezone

    @property
    def tz(self) -> tzinfo:
        """The organization's zone."""
        return zone(self.zone)

    def due(self, config: _Configuration, document: Mapping[str, Any]) -> datetime | None:
        """When an entity falls due."""
        return due_moment(document.get(config.entity.field), config.entity.offset, self.tz)

    def unfinished_scans(self, scans: Mapping[str, Scan]) -> Iterator[Scan]:
        """The configurations whose entities are still to be looked at, and from where on."""
        for each in self.by_id.values():
            scan = scans.get(each.id)
            if scan is None or (scan.version, scan.zone) != (each.version, self.zone):
                scan = Scan(each.id, each.version, self.zone)
            if not scan.complete:
                yield scan


def note_changes(transaction: Transaction, entries: Iterable[LogEntry]) -> None:
    """Note when the entities fall due that some events of the log have changed.

    Args:
        transaction: The one in which the reader of the log moves on.
        entries: The events, in their order.
    """
    schedule = Schedule(transaction)
    stems = schedule.by_stem.keys()
    wanted = [each for each in entries if each.category is None and _stem(each.name) in stems]
    if not wanted:
        return
    stored = read_events(transaction, [each.id for each in wanted])
    changed: dict[MomentKey, datetime | None] = {}
    gone: dict[str, bool] = {}
    for entry in wanted:
        event = stored[entry.id].event
        entity_id = event.resource_id or ""
        gone[entity_id] = entry.name.endswith(f".{DELETED}")
        for config in schedule.by_stem[_stem(entry.name)]:
            changed[config.id, entity_id] = schedule.due(config, event.data.get("newDto") or {})
    moments.forget_entities(transaction, [each for each, is_gone in gone.items() if is_gone])
    moments.replace_moments(transaction, {k: due for k, due in changed.items() if not gone[k[1]]})


def _stem(name: str) -> str:
    stem, _, action = name.rpartition(".")
    return stem if action in SIDES else ""


def fire_scheduled(
    organization: Organization, stop: Callable[[], bool] = lambda: False, sources: Sources = SOURCES
) -> int:
    """Write the events of what has fallen due.

    Args:
        organization: The organization.
        stop: Whether to begin no further transaction.
        sources: Read what the events are about, by the stems of its own events.

    Returns:
        How many events were written.

    Raises:
        Unavailable: State cannot be reached.
    """
    count = 0
    while not stop() and _has_work(organization):
        with organization.transaction(AUTHOR) as transaction:
            schedule, scans = Schedule(transaction), moments.read_scans(transaction)
            moments.forget_configurations(transaction, scans.keys() - schedule.by_id.keys())
            for scan in schedule.unfinished_scans(scans):
                # Note when the next entities of a configuration fall due.
                config = schedule.by_id[scan.config_id]
                source = sources.get(stem_of(config.entity.entity) or "")
                ids = [] if source is None else source.ids_after(transaction, scan.last_id, _PAGE)
                if not ids or source is None:
                    moments.write_scan(transaction, replace(scan, complete=True))
                else:
                    found = _read(source, transaction, ids)
                    due = {
                        (config.id, id_): schedule.due(config, each.document)
                        for id_, each in found.items()
                    }
                    moments.replace_moments(transaction, due)
                    moments.write_scan(transaction, replace(scan, last_id=ids[-1]))
                break
            count += _fire(transaction, schedule, sources)
            mark_step("scheduled.written")
        mark_step("scheduled.fired")
    return count


def _has_work(organization: Organization) -> bool:
    with organization.reading() as reader:
        if moments.due_moments(reader, organization.now(), 1):
            return True
        schedule, scans = Schedule(reader), moments.read_scans(reader)
        unfinished = next(schedule.unfinished_scans(scans), None)
        return unfinished is not None or not scans.keys() <= schedule.by_id.keys()


def _read(
    source: EntitySource, reader: Reader, ids: Collection[str]
) -> Mapping[str, CurrentEntity]:
    """Some entities as events have them: their dates are texts."""
    return {
        id_: replace(each, document=wire.loads(wire.dumps(each.document)))
        for id_, each in source.read(reader, ids).items()
    }


def _fire(transaction: Transaction, schedule: Schedule, sources: Sources) -> int:
    """Write the events of some moments that have come; the others are corrected."""
    found = moments.due_moments(transaction, transaction.now, _PAGE)
    # One whose configuration is deleted goes with it.
    known = [each for each in found if each.config_id in schedule.by_id]
    ids: dict[str, set[str]] = {}
    for each in known:
        stem = stem_of(schedule.by_id[each.config_id].entity.entity) or ""
        ids.setdefault(stem, set()).add(each.entity_id)
    current: dict[str, CurrentEntity] = {}
    for stem, some in ids.items():
        if stem in sources:
            current |= _read(sources[stem], transaction, sorted(some))
    fired, moved = [], {}
    for each in known:
        config, entity = schedule.by_id[each.config_id], current.get(each.entity_id)
        due = None if entity is None else schedule.due(config, entity.document)
        if entity is None or due != each.due:
            moved[each.config_id, each.entity_id] = due
        else:
            fired.append(
                (
                    each,
                    Event(
                        name=config.entity.name,
                        kind=entity.kind,
                        resource_id=each.entity_id,
                        data=data(entity.document, None),
                        account_id=entity.account_id,
                        time=each.due,
                    ),
                )
            )
    moments.replace_moments(transaction, moved)
    moments.note_fired(transaction, [each for each, _ in fired], transaction.now)
    made = [(transaction.new_id(), event) for _, event in fired]
    write_all(transaction.connection, transaction.org_id, transaction.now, made)
    orphans = {each.config_id for each in found} - schedule.by_id.keys()
    moments.forget_configurations(transaction, orphans)
    return len(fired)
