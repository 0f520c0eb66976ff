"""Integrations are switched off and on again."""

from meterlake.model.integrations import IntegrationConfig, WebhookDestination
from meterlake.pipeline.config.entities import Document, entity_document
from meterlake.stores import Stores
from meterlake.stores.state import Transaction
from meterlake.stores.state.integrations.health import (
    HEALTHY,
    Health,
    forget_health,
    health_of,
    write_health,
)


def enable_integration(stores: Stores, org_id: str, author: str, id: str) -> Document:
    """Let an integration run again, as if nothing had failed; runs that ended meanwhile stay ended.

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
