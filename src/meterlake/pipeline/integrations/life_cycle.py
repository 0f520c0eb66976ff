"""Integrations are switched off and on again, and deleted."""

from enum import StrEnum

from meterlake.model.configuration.integrations import (
    ExternalMapping,
    IntegrationConfig,
    RunStatus,
    WebhookDestination,
)
from meterlake.model.errors import Conflict
from meterlake.pipeline.config.entities import Document, delete_in, entity_document
from meterlake.pipeline.integrations.replay import repeat_deletions
from meterlake.stores import Stores
from meterlake.stores.state import Transaction
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.health import (
    HEALTHY,
    Health,
    forget_health,
    health_of,
    write_health,
)
from meterlake.stores.state.integrations.runs import RunFilters, page_of_runs


class MappingChoice(StrEnum):
    """What becomes of the external mappings of an integration that is deleted."""

    KEEP = "keep"
    DELETE = "delete"


def enable_integration(stores: Stores, org_id: str, author: str, id: str) -> Document:
    """Let an integration run again, as if nothing had failed; runs that ended meanwhile stay ended.

    Bills that were deleted meanwhile are taken back now.

    A webhook that failures switched off is switched on with it, one that people did is not.

    Raises:
        NotFound: There is no such integration.
    """
    with stores.state.transaction(org_id, author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        webhook_id = record.entity.destination_id
        if webhook_id is not None:
            _restore_webhook(transaction, webhook_id)
        forget_health(transaction.connection, org_id, id)
        repeat_deletions(transaction, id)
        return entity_document(record, transaction)


def _restore_webhook(transaction: Transaction, id: str) -> None:
    found = health_of(transaction.connection, transaction.org_id, [id]).get(id, HEALTHY)
    forget_health(transaction.connection, transaction.org_id, id)
    webhook = transaction.get(WebhookDestination, id)
    if found.disabled is not None and not webhook.entity.active:
        on = webhook.entity.model_copy(update={"active": True})
        transaction.update(id, webhook.version, on)


def disable_integration(stores: Stores, org_id: str, author: str, id: str) -> Document:
    """Send nothing more for an integration until it is enabled; runs whose turn comes are DISABLED.

    Raises:
        NotFound: There is no such integration.
    """
    with stores.state.transaction(org_id, author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        off = Health(disabled=transaction.now, reason=f"it was disabled by {author}")
        write_health(transaction.connection, org_id, id, off)
        return entity_document(record, transaction)


def delete_integration(
    stores: Stores,
    org_id: str,
    author: str,
    id: str,
    mappings: MappingChoice = MappingChoice.KEEP,
) -> Document:
    """Delete an integration; answers with what it was.

    Args:
        stores: The home's stores.
        org_id: The organization.
        author: Who does it.
        id: The integration.
        mappings: Whether what bills became there stays written down, for all integrations of the
            system. Without it another integration sends a bill as if it had never been sent.

    Raises:
        NotFound: There is no such integration.
        Conflict: A run is being sent at this moment, or a mapping that stays would say something
            else than one of the whole system.
    """
    with stores.state.transaction(org_id, author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        gone = entity_document(record, transaction)
        sending = RunFilters(config_id=id, statuses=(RunStatus.STARTED,))
        under_way, _ = page_of_runs(transaction.connection, org_id, sending, Page(1, None))
        if under_way:
            raise Conflict(f"the run {under_way[0].id} is being sent; try again when it has ended")
        if mappings is MappingChoice.DELETE:
            for mapping in transaction.referring(ExternalMapping, IntegrationConfig, id):
                delete_in(transaction, mapping)
        delete_in(transaction, record)
        forget_health(transaction.connection, org_id, id)
        return gone
