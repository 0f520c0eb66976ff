"""HOOKS: what some resources do to State beyond the standard verbs, one row each.

What needs no State stands in the rows of RESOURCES; the model may not know the stores.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.configuration.notifications import ScheduledEventConfiguration
from meterlake.model.configuration.organization import BillConfig
from meterlake.model.configuration.picklists import CreditReason, DebitReason, TransactionType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.commitments import Commitment
from meterlake.model.values.entity import Entity, Record
from meterlake.pipeline.config.bill_config import refuse_pending
from meterlake.pipeline.config.credential_changes import (
    forget_refusals_of_integration,
    forget_refusals_of_webhook,
)
from meterlake.pipeline.config.notifications import refuse_notified_event
from meterlake.pipeline.config.schedule_jobs import submit_first
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills.bills import refuse_billed
from meterlake.stores.state.billing.credits.balances import (
    refuse_booked_balance,
    refuse_booked_type,
    refuse_drawn_commitment,
)
from meterlake.stores.state.billing.memos.memos import refuse_reason_of_memo


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
