"""HOOKS: what some resources do to State beyond the standard verbs, one row each.

Entities that name one that is deleted hold it, or let it go.

What needs no State stands in the rows of RESOURCES; the model may not know the stores.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.configuration.organization import (
    BillConfig,
    CreditReason,
    DebitReason,
    TransactionType,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Conflict, Invalid, StillReferenced
from meterlake.model.resources import RESOURCES, Resource
from meterlake.model.rules import Proposed
from meterlake.model.rules.integrations import credentials_id
from meterlake.model.rules.proposed import display_name
from meterlake.model.values.entity import Entity, Record
from meterlake.pipeline.config.schedule_jobs import submit_first
from meterlake.stages.config.check import check_rules
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills.bills import pending_until, refuse_billed
from meterlake.stores.state.billing.credits.balances import (
    refuse_booked_balance,
    refuse_booked_type,
    refuse_drawn_commitment,
)
from meterlake.stores.state.billing.memos.memos import refuse_reason_of_memo
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.integrations.health import forget_refusals


def refuse_notified_event(reader: Reader, id: str) -> None:
    """Refuse to delete a scheduled event that a notification names.

    Raises:
        StillReferenced: One does, and no other scheduled event has the name.
    """
    events = list(reader.all(ScheduledEventConfiguration))
    name = next(each.entity.name for each in events if each.id == id)
    if any(each.entity.name == name and each.id != id for each in events):
        return
    for record in reader.all(NotificationConfiguration):
        if record.entity.event_name == name:
            raise StillReferenced("ScheduledEventConfiguration", id, display_name(record))


def forget_refusals_of_integration(
    transaction: Transaction, id: str, before: IntegrationConfig, after: IntegrationConfig
) -> None:
    """Forget that credentials were refused which an integration, or one that shares them, has not."""
    if _sign_in(before) == _sign_in(after):
        return
    shared = {credentials_id(id), after.integration_credentials_id} - {None}
    sharing = [
        each.id
        for each in transaction.all(IntegrationConfig)
        if each.entity.integration_credentials_id in shared
    ]
    forget_refusals(transaction.connection, transaction.org_id, [id, *sharing])


def forget_refusals_of_webhook(
    transaction: Transaction, id: str, before: WebhookDestination, after: WebhookDestination
) -> None:
    """Forget that a webhook refused a key or an address that it has no more."""
    if (before.credentials, before.url) != (after.credentials, after.url):
        forget_refusals(transaction.connection, transaction.org_id, [id])


def _sign_in(config: IntegrationConfig) -> tuple[Any, ...]:
    """What the other system decides by: who calls, and where."""
    shared = config.integration_credentials_id
    return config.credentials, shared, config.destination_id, config.secret_receivers()


def refuse_pending(transaction: Transaction, config: BillConfig) -> None:
    """Refuse a lock date while a bill that it would close waits for approval.

    Raises:
        Invalid: There is such a bill.
    """
    day = config.bill_lock_date
    pending = None if day is None else pending_until(transaction, day)
    if day is not None and pending is not None:
        rule = f"it must be a day before the last one of every PENDING bill; bill {pending!r} ends on or before it"
        raise Invalid("billLockDate", day.isoformat(), rule)


def _do_nothing(*_: object) -> None:
    """Nothing more happens, and nothing speaks against it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What one resource does beyond the others.

    Attributes:
        after_create: Runs in the transaction that creates an entity, after it.
        before_update: Runs in the transaction that updates an entity, before it, with the new one;
            refuses by Invalid.
        after_update: Runs in the transaction that updates an entity, after it, with its id and its
            fields before and after; secrets in them are readable.
        guard_deletion: Refuses to let an entity go that tables beside the configuration name, by
            StillReferenced.
    """

    after_create: Callable[[Transaction, Record[Any]], None] = _do_nothing
    before_update: Callable[[Transaction, Any], None] = _do_nothing
    after_update: Callable[[Transaction, str, Any, Any], None] = _do_nothing
    guard_deletion: Callable[[Reader, str], None] = _do_nothing


_NAMING: Final = tuple(each for each in RESOURCES if each.names is not None)
_NONE: Final = Hooks()
HOOKS: Final[Mapping[type[Entity], Hooks]] = {
    Account: Hooks(guard_deletion=refuse_billed),
    Balance: Hooks(guard_deletion=refuse_booked_balance),
    Commitment: Hooks(guard_deletion=refuse_drawn_commitment),
    CreditReason: Hooks(guard_deletion=refuse_reason_of_memo(CreditReason)),
    DebitReason: Hooks(guard_deletion=refuse_reason_of_memo(DebitReason)),
    TransactionType: Hooks(guard_deletion=refuse_booked_type),
    ScheduledEventConfiguration: Hooks(guard_deletion=refuse_notified_event),
    BillConfig: Hooks(before_update=refuse_pending),
    IntegrationConfig: Hooks(after_update=forget_refusals_of_integration),
    WebhookDestination: Hooks(after_update=forget_refusals_of_webhook),
    ExportSchedule: Hooks(after_create=submit_first),
}


def hooks_of(record: Record[Any]) -> Hooks:
    """The hooks of an entity; those of most do nothing."""
    return HOOKS.get(type(record.entity), _NONE)


def refuse_named(reader: Reader, record: Record[Any]) -> None:
    """Refuse to let go of what others name in fields that are no references by themselves.

    Raises:
        StillReferenced: One does.
    """
    for resource in _NAMING:
        assert resource.names is not None
        for other in reader.all(resource.entity):
            if other.id != record.id and record.id in resource.names(other.entity):
                kind = type(record.entity).__name__
                raise StillReferenced(kind, record.id, display_name(other))


def release(transaction: Transaction, record: Record[Any]) -> None:
    """Have what may stay without an entity forget it.

    Raises:
        Conflict: Without it, one would say something else than another one.
    """
    for resource, path in _releasing(type(record.entity)):
        for other in transaction.referring(resource.entity, type(record.entity), record.id):
            entity = other.entity.model_copy(update={path: None})
            configuration = StoredConfiguration(transaction)
            try:
                check_rules(Proposed(other.id, entity, other.entity, configuration), {})
            except Conflict as error:
                name = display_name(other)
                raise Conflict(f"{name} cannot stay without {record.id}: {error}") from None
            transaction.update(other.id, other.version, entity)


def _releasing(kind: type[Entity]) -> Iterator[tuple[Resource, str]]:
    for resource in RESOURCES:
        yield from ((resource, path) for path in resource.released if resource.refs[path] is kind)
