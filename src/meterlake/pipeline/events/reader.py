"""The reader of the event log: what follows from events, each exactly once.

A batch of events is evaluated beside all writers. What follows from it is written in one
transaction with the position in the log: notifications that go out, the runs that hand them over,
and the moments of scheduled events. Of two readers the one that is second finds the position moved,
and writes nothing; one that dies leaves everything for the next.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from meterlake.model.configuration.integrations import ExternalMapping, IntegrationConfig, RunAction
from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.resources.events import (
    INTEGRATION,
    NOTIFICATION,
    Event,
    data,
    follows_from_another,
)
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import format_instant
from meterlake.model.values.plurals import counted
from meterlake.pipeline.events.events import event_document
from meterlake.pipeline.events.scheduled import note_changes
from meterlake.stages.events import integration_deliveries
from meterlake.stages.events.integration_deliveries import NO_SYSTEMS, Integrations, Systems
from meterlake.stages.events.match import ActiveNotifications, NotificationFailure
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills.versions import keys_of
from meterlake.stores.state.core.stored_configuration import field_equals
from meterlake.stores.state.events import events
from meterlake.stores.state.events.events import StoredEvent
from meterlake.stores.state.events.log import (
    LogEntry,
    entries_after,
    read_events,
    read_position,
    write_position,
)
from meterlake.stores.state.integrations.handed_over import configs_that_took
from meterlake.stores.state.integrations.runs import NewRuns, RunContent, deletion_key

AUTHOR: Final = "notifications"
_FAILED: Final = "integration.validation.error"
# Events of one transaction, and what may follow from those before the last of them: other writers
# of State wait for as long as it takes, and all of it is in memory.
_BATCH: Final = 500
_FOLLOWING_MAX: Final = 2000

_Notification = Record[NotificationConfiguration]


@dataclass(slots=True)
class _Batch:
    """Some events of the log, and what follows from them."""

    position: int
    entries: Sequence[LogEntry]
    fired: list[tuple[StoredEvent, _Notification]] = field(default_factory=list)
    failed: list[tuple[StoredEvent, NotificationFailure]] = field(default_factory=list)
    bills: list[tuple[StoredEvent, Record[IntegrationConfig]]] = field(default_factory=list)
    # By the ids of bills: what they are, who has been told of them, and where they have names.
    subjects: dict[str, str] = field(default_factory=dict)
    takers: dict[str, set[str]] = field(default_factory=dict)
    mapped: dict[str, set[str]] = field(default_factory=dict)

    @property
    def audible(self) -> list[LogEntry]:
        """The events that may make something go out.

        What follows from another event does not, so that there are no circles: a webhook that fails
        would be told of its failure for ever.
        """
        return [
            each
            for each in self.entries
            if each.category is None and not follows_from_another(each.name)
        ]

    @property
    def is_full(self) -> bool:
        """Whether enough follows from the events so far."""
        return len(self.fired) + len(self.failed) + len(self.bills) >= _FOLLOWING_MAX

    def end_at(self, last: LogEntry) -> None:
        """Leave the events after one to the next batch."""
        self.entries = [each for each in self.entries if each.seq <= last.seq]


def read_log(
    organization: Organization,
    stop: Callable[[], bool] = lambda: False,
    systems: Systems = NO_SYSTEMS,
) -> int:
    """Do what follows from the events that nobody has evaluated yet.

    Args:
        organization: The organization.
        stop: Whether to begin no further batch.
        systems: The systems that can be sent to, and what each takes.

    Returns:
        How many events were evaluated.

    Raises:
        Unavailable: State cannot be reached.
    """
    count = 0
    while not stop():
        with organization.reading() as reader:
            position = read_position(reader)
            entries = entries_after(reader, position, _BATCH)
            if not entries:
                break
            batch = _Batch(position, entries)
            # What follows from events is most of the log, and needs no look at what is configured.
            configs = reader.all(IntegrationConfig) if batch.audible else ()
            integrations = Integrations(configs, systems)
            if batch.audible:
                _evaluate(reader, batch, integrations)
        mark_step("events.evaluated")
        with organization.transaction(AUTHOR) as transaction:
            if read_position(transaction) != position:
                break
            _write(transaction, batch, integrations)
            mark_step("events.written")
        mark_step("events.read")
        count += len(batch.entries)
    return count


def _evaluate(reader: Reader, batch: _Batch, integrations: Integrations) -> None:
    notifications = ActiveNotifications(reader.all(NotificationConfiguration))
    names = notifications.event_names
    if integrations.takes_bills:
        names |= integration_deliveries.BILL_EVENTS
    entries = [each for each in batch.audible if each.name in names]
    stored = read_events(reader, [each.id for each in entries])
    if integrations.takes_bills:
        # Read what the bills of events are, and which integrations have sent those that are
        # deleted.
        events = [each.event for each in stored.values()]
        ids = {(each.name, each.resource_id or "") for each in events}
        bills = {id_ for name, id_ in ids if name in integration_deliveries.BILL_EVENTS}
        batch.subjects |= {id_: key.identity for id_, key in keys_of(reader, bills).items()}
        deleted = {id_ for name, id_ in ids if name == integration_deliveries.BILL_DELETED}
        batch.takers |= configs_that_took(reader, deleted)
        batch.mapped |= {id_: _systems_of(reader, id_) for id_ in deleted}
    for entry in entries:
        event = stored[entry.id]
        found = notifications.match(event.event.name, event.event.data, event.written)
        batch.fired += [(event, each) for each in found.fired]
        batch.failed += [(event, each) for each in found.failed]
        batch.bills += [(event, each) for each in _takers(event, integrations, batch)]
        if batch.is_full:
            batch.end_at(entry)
            return


def _systems_of(reader: Reader, bill_id: str) -> set[str]:
    """The systems in which a bill has a name for all integrations."""
    found = reader.matching(
        ExternalMapping, field_equals(reader, ExternalMapping, "m3ter_id", bill_id)
    )
    scopes = [each.entity.scope() for each in found]
    return {
        str(system)
        for kind, _, system, _, config in scopes
        if (kind, config) == (integration_deliveries.BILL, None)
    }


def _takers(
    stored: StoredEvent, integrations: Integrations, batch: _Batch
) -> Iterator[Record[IntegrationConfig]]:
    event, id_ = stored.event, stored.event.resource_id
    if event.name not in integration_deliveries.BILL_EVENTS or id_ is None:
        return
    takers = batch.takers.setdefault(id_, set())
    if event.name == integration_deliveries.BILL_DELETED:
        yield from integrations.of_deleted_bill(takers, batch.mapped.get(id_, ()))
        return
    for each in integrations.of_bill(id_, event.account_id, event.data, stored.written):
        takers.add(each.id)
        yield each


def _write(transaction: Transaction, batch: _Batch, integrations: Integrations) -> None:
    connection, org_id, now = transaction.connection, transaction.org_id, transaction.now
    fired = [
        (
            StoredEvent(
                derived_id("notification", base.id, rule.id), _derived(base, rule), now, None, now
            ),
            base,
            rule,
        )
        for base, rule in batch.fired
    ]
    failed = list(_failures(batch, format_instant(now)))
    events.write_all(connection, org_id, now, [(each.id, each.event) for each, _, _ in fired])
    events.write_all(connection, org_id, now, failed)
    events.mark_notified(connection, [(each.id, rule.id) for each, _, rule in fired])
    runs = [
        RunContent(
            entity_type=integration_deliveries.NOTIFICATION,
            entity_id=rule.id,
            destination=config.entity.destination.upper(),
            destination_id=config.entity.destination_id,
            config_id=config.id,
            config_version=config.version,
            account_id=derived.event.account_id,
            event_id=derived.id,
            rule_version=rule.version,
            run_key=f"{config.id} {derived.id}",
            body=_body(derived, base),
        )
        for derived, base, rule in fired
        for config in integrations.of_notification(rule.id, base.written)
    ]
    runs += [_bill_run(stored, config, batch.subjects) for stored, config in batch.bills]
    note_changes(transaction, batch.entries)
    NewRuns(connection, org_id, now, transaction.new_id).add(runs)
    write_position(transaction, batch.entries[-1].seq)


def _derived(stored: StoredEvent, rule: _Notification) -> Event:
    """The event of a notification that goes out: it carries what its base event does."""
    base = stored.event
    facts = {
        "notificationId": rule.id,
        "notificationCode": rule.entity.code,
        "notificationVersion": rule.version,
        "baseEventId": stored.id,
        "baseEventTime": format_instant(stored.time),
    }
    return Event(
        name=base.name,
        kind=base.kind,
        resource_id=base.resource_id,
        data={**base.data, **facts},
        account_id=base.account_id,
        category=NOTIFICATION,
        base_id=stored.id,
    )


def _failures(batch: _Batch, date: str) -> Iterator[tuple[str, Event]]:
    """One event of each notification that could not be evaluated, however many events that were."""
    by_rule: dict[str, list[tuple[StoredEvent, NotificationFailure]]] = {}
    for stored, failure in batch.failed:
        by_rule.setdefault(failure.notification.id, []).append((stored, failure))
    for found in by_rule.values():
        (base, failure), *others = found
        rule = failure.notification
        more = f", and of {counted(len(others), 'more event')}" if others else ""
        facts = {
            "name": rule.entity.name,
            "date": date,
            "message": f"the calculation of notification {rule.entity.code!r} has no answer for"
            f" event {base.id}{more}: {failure.message}",
            "notificationId": rule.id,
        }
        yield (
            derived_id("notification-failure", base.id, rule.id),
            Event(
                name=_FAILED,
                kind=NotificationConfiguration.__name__,
                resource_id=rule.id,
                data=data(facts, None),
                account_id=base.event.account_id,
                category=INTEGRATION,
                base_id=base.id,
            ),
        )


def _body(derived: StoredEvent, base: StoredEvent) -> str:
    """What receivers get, in the form of Standard Webhooks: these bytes are signed and sent.

    The time is when it happened: many events are evaluated at once, perhaps much later.
    """
    shown: dict[str, Any] = event_document(derived)
    del shown["dtActioned"]
    body = {"type": derived.event.name, "timestamp": base.time, "data": shown}
    return wire.dumps(body).decode()


def _bill_run(
    stored: StoredEvent, config: Record[IntegrationConfig], subjects: Mapping[str, str]
) -> RunContent:
    """The run that sends a version of a bill, or takes back a bill that is deleted."""
    event = stored.event
    bill_id = str(event.resource_id)
    version = (event.data.get("newDto") or {}).get("version")
    is_deleted = event.name == integration_deliveries.BILL_DELETED
    return RunContent(
        entity_type=integration_deliveries.BILL,
        entity_id=bill_id,
        destination=config.entity.destination.upper(),
        destination_id=config.entity.destination_id,
        config_id=config.id,
        config_version=config.version,
        account_id=event.account_id,
        event_id=stored.id,
        run_key=deletion_key(config.id, bill_id)
        if is_deleted
        else f"{config.id} {bill_id} {version}",
        action=(RunAction.DELETE if is_deleted else RunAction.SEND).value,
        subject=subjects.get(bill_id),
    )
