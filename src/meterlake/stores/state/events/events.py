"""Events: written with the change that they tell of, read newest first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources import resource_of
from meterlake.model.resources.events import Event, account_of, change, data
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.secrets import mask_secrets
from meterlake.model.values.untrusted import UNTRUSTED_MAX, storable_data
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.pages import NEXT_TOKEN, TOKEN_RULE, Page, key_of, key_token
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.core.tables import ENTITY
from meterlake.stores.state.events.event_tables import EVENT, EVENT_NOTIFICATION

# The numbers of events have at most so many digits.
_SEQ_DIGITS: Final = 18
# Twenty times as fast as `wire.dumps`. Numbers keep their digits, if in another notation; they
# are read back as they were and shown as all others are.
_ENCODER: Final = msgspec.json.Encoder(decimal_format="number")


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it was written; instants are aware UTC."""

    id: str
    event: Event
    time: datetime
    actioned: datetime | None
    # When it was written.
    written: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a list shows; None and empty mean any.

    Attributes:
        ids: These events, however old.
        names: One of these names.
        category: What follows from other events only if it is of this category.
        notification_ids: They are those of one of these notifications.
        actioned: Also those that somebody has seen to.
        since: Not written before this instant.
    """

    ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    category: str | None = None
    account_id: str | None = None
    resource_id: str | None = None
    notification_ids: tuple[str, ...] | None = None
    actioned: bool = False
    since: datetime | None = None


def write(
    connection: Connection, org_id: str, now: datetime, new_id: Callable[[], str], event: Event
) -> str:
    """Store one event; it is kept if the connection's transaction is.

    Returns:
        Its id.
    """
    row = _row(org_id, now, new_id(), event)
    connection.execute(insert(EVENT), row)
    return str(row["id"])


def write_all(
    connection: Connection, org_id: str, now: datetime, made: Sequence[tuple[str, Event]]
) -> None:
    """Store some events with the ids that they are given."""
    insert_rows(connection, EVENT, [_row(org_id, now, id_, event) for id_, event in made])


def exists(reader: Reader, id: str) -> bool:
    """Whether there is such an event."""
    query = select(EVENT.c.id).where(EVENT.c.id == id, EVENT.c.org == reader.org_id)
    return reader.connection.execute(query).first() is not None


def get(reader: Reader, id: str) -> StoredEvent:
    """One event.

    Raises:
        NotFound: There is none.
    """
    row = reader.connection.execute(_events(reader).where(EVENT.c.id == id)).first()
    if row is None:
        raise NotFound("event", id)
    return event_of_row(row)


def page(reader: Reader, criteria: EventFilter, of: Page) -> tuple[list[StoredEvent], str | None]:
    """One page of events, the newest first, and the token of the next; None at the end.

    Raises:
        Invalid: The token is none that a list gave.
    """
    query = _events(reader).where(*_conditions(criteria))
    if of.token is not None:
        # Where a page ended; its last event may be gone meanwhile.
        time, seq = key_of(of.token)
        if not seq.isdecimal() or len(seq) > _SEQ_DIGITS:
            raise Invalid(NEXT_TOKEN, of.token, TOKEN_RULE)
        place = tuple_(literal(time, EVENT.c.time.type), literal(int(seq), EVENT.c.seq.type))
        query = query.where(tuple_(EVENT.c.time, EVENT.c.seq) < place)
    query = query.order_by(EVENT.c.time.desc(), EVENT.c.seq.desc()).limit(of.size + 1)
    # Name by name each is read in the order of an index; of several at once none would be.
    by_name = [query.where(EVENT.c.name == name) for name in criteria.names] or [query]
    parts = [part for each in by_name for part in _since(each, criteria.since)]
    rows = [row for each in parts for row in reader.connection.execute(each)]
    rows.sort(key=lambda row: (row.time, row.seq), reverse=True)
    found = [event_of_row(row) for row in rows[: of.size]]
    last = rows[of.size - 1] if len(rows) > of.size else None
    return found, None if last is None else key_token(last.time, str(last.seq))


def _since(query: Select[Any], since: datetime | None) -> Iterator[Select[Any]]:
    """The queries of what was written since then: in its time, or later."""
    if since is None:
        yield query
        return
    yield query.where(EVENT.c.time >= since)
    yield query.where(EVENT.c.time < since, EVENT.c.written >= since)


def mark_actioned(reader: Reader, id: str, at: datetime) -> None:
    """Note that somebody has seen to an event.

    Raises:
        NotFound: There is no such event.
    """
    statement = update(EVENT).where(EVENT.c.org == reader.org_id, EVENT.c.id == id)
    if reader.connection.execute(statement.values(actioned=at)).rowcount != 1:
        raise NotFound("event", id)


def mark_notified(connection: Connection, fired: Sequence[tuple[str, str]]) -> None:
    """Note of which notifications events are: the id of the event, and of the notification."""
    rows = [{"event_id": event, "notification_id": rule} for event, rule in fired]
    insert_rows(connection, EVENT_NOTIFICATION, rows)


def documents_of(reader: Reader, records: Sequence[Record[Any]]) -> dict[str, dict[str, Any]]:
    """What events carry of some entities as they are now, by id."""
    configuration = StoredConfiguration(reader)
    codes = _account_codes(reader, records)
    return {
        each.id: _document(reader.org_id, each, _computed_fields(each, configuration), codes)
        for each in records
    }


@dataclass(slots=True)
class _Change:
    """A change of an entity whose event is still to be written."""

    new: Record[Any] | None
    old: Record[Any] | None
    # What is computed of the old version has to be computed while it is there.
    old_computed: dict[str, Any] = field(default_factory=dict)
    # None of what is computed when the event is written.
    new_computed: dict[str, Any] | None = None

    @property
    def record(self) -> Record[Any]:
        found = self.new or self.old
        assert found is not None
        return found


class Journal:
    """The events of one transaction, written together at its end.

    Then everything is there that an entity refers to, and many events cost one statement.
    """

    def __init__(self, reader: Reader, now: datetime, new_id: Callable[[], str]) -> None:
        self._reader = reader
        self._now = now
        self._new_id = new_id
        self._pending: list[_Change | Event] = []
        self._before: tuple[type[Entity] | None, StoredConfiguration]
        self._before = (None, StoredConfiguration(reader))

    def note_change(self, new: Record[Any] | None, old: Record[Any] | None = None) -> None:
        """Note that an entity was created (no `old`), updated or deleted (no `new`).

        An update is to be noted before what the old version refers to is changed too.
        """
        noted = _Change(new, old)
        if resource_of(noted.record.entity).event is None:
            return
        if old is not None:
            kind = type(old.entity)
            # What is computed looks at other kinds: while one kind changes, they may be remembered.
            if self._before[0] is not kind:
                self._before = kind, StoredConfiguration(self._reader)
            around = self._before[1]
            noted.old_computed = _computed_fields(old, around)
        self._pending.append(noted)

    def note_computed(self, record: Record[Any], new: dict[str, Any], old: dict[str, Any]) -> None:
        """Note that an entity stays as it is, and what is computed of it does not."""
        self._pending.append(_Change(record, record, old, new))

    def add(self, event: Event) -> None:
        """Note an event that is no change of an entity."""
        self._pending.append(event)

    def write(self) -> None:
        """Write all that was noted."""
        configuration = StoredConfiguration(self._reader)
        for chunk in chunks_of(self._pending):
            codes = _account_codes(self._reader, _records_of(chunk))
            events_made = (self._event(each, configuration, codes) for each in chunk)
            rows = [
                _row(self._reader.org_id, self._now, self._new_id(), each) for each in events_made
            ]
            insert_rows(self._reader.connection, EVENT, rows)
        self._pending.clear()

    def _event(
        self, noted: _Change | Event, configuration: StoredConfiguration, codes: dict[str, str]
    ) -> Event:
        if isinstance(noted, Event):
            return noted
        record, org_id = noted.record, self._reader.org_id
        resource = resource_of(record.entity)
        new = old = None
        if noted.new is not None:
            computed = noted.new_computed
            if computed is None:
                computed = _computed_fields(noted.new, configuration)
            new = _document(org_id, noted.new, computed, codes)
        if noted.old is not None:
            old = _document(org_id, noted.old, noted.old_computed, codes)
        name = change(str(resource.event), new, old)
        return Event(name, resource.kind, record.id, data(new, old), account_of(record))


def _document(
    org_id: str, record: Record[Any], computed: dict[str, Any], codes: dict[str, str]
) -> dict[str, Any]:
    shown = {**mask_secrets(record).to_wire(), **computed, "orgId": org_id}
    code = codes.get(shown.get("accountId", ""))
    return shown if code is None else {**shown, "accountCode": code}


def _account_codes(reader: Reader, records: Iterable[Record[Any]]) -> dict[str, str]:
    ids = {id_ for each in records if (id_ := getattr(each.entity, "account_id", None))}
    found: dict[str, str] = {}
    for some in chunks_of(sorted(ids)):
        query = select(ENTITY.c.id, ENTITY.c.code).where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == Account.__name__,
            ENTITY.c.id.in_(some),
        )
        found |= {row.id: row.code for row in reader.connection.execute(query)}
    return found


def _records_of(chunk: Iterable[_Change | Event]) -> Iterator[Record[Any]]:
    for noted in chunk:
        if isinstance(noted, _Change):
            yield from (each for each in (noted.new, noted.old) if each is not None)


def _computed_fields(record: Record[Any], configuration: StoredConfiguration) -> dict[str, Any]:
    compute = resource_of(record.entity).computed
    if compute is None:
        return {}
    try:
        return compute(record, configuration)
    except NotFound:  # what it refers to is yet to come, or went in the same transaction
        return {}


def _row(org_id: str, now: datetime, id: str, event: Event) -> dict[str, Any]:
    return {
        "id": id,
        "org": org_id,
        "name": event.name,
        "kind": event.kind,
        "resource_id": event.resource_id,
        "account_id": event.account_id,
        "time": now if event.time is None else event.time,
        "written": None if event.time is None else now,
        "category": event.category,
        "base_id": event.base_id,
        "body": _encode(event.data),
    }


def _events(reader: Reader) -> Select[Any]:
    return select(EVENT).where(EVENT.c.org == reader.org_id)


def _conditions(criteria: EventFilter) -> Iterator[ColumnElement[bool]]:
    if criteria.ids:
        yield EVENT.c.id.in_(criteria.ids)
    if criteria.account_id is not None:
        yield EVENT.c.account_id == criteria.account_id
    if criteria.resource_id is not None:
        yield EVENT.c.resource_id == criteria.resource_id
    if criteria.notification_ids is not None:
        query = select(EVENT_NOTIFICATION.c.event_id)
        of_notifications = query.where(
            EVENT_NOTIFICATION.c.notification_id.in_(criteria.notification_ids)
        )
        yield EVENT.c.id.in_(of_notifications)
    if criteria.category is not None:
        same = EVENT.c.category == criteria.category
        yield or_(same, EVENT.c.category.is_(None)) if criteria.names else same
    if not criteria.actioned:
        yield EVENT.c.actioned.is_(None)


def event_of_row(row: Row[Any]) -> StoredEvent:
    """The event of a row that has all columns."""
    event = Event(
        name=row.name,
        kind=row.kind,
        resource_id=row.resource_id,
        data=wire.loads(row.body),
        account_id=row.account_id,
        category=row.category,
        base_id=row.base_id,
        time=None if row.written is None else row.time,
    )
    return StoredEvent(row.id, event, row.time, row.actioned, row.written or row.time)


def _encode(data: Mapping[str, Any]) -> str:
    """The data of an event as JSON; words of strangers in it may be no text."""
    try:
        encoded = _ENCODER.encode(data).decode()
    except UnicodeEncodeError:
        return _ENCODER.encode(storable_data(data)).decode()
    # PostgreSQL reads no member of JSON that has a zero anywhere, and a text of megabytes would go
    # to every receiver.
    if len(encoded) > UNTRUSTED_MAX or "\\u0000" in encoded:
        return _ENCODER.encode(storable_data(data)).decode()
    return encoded
