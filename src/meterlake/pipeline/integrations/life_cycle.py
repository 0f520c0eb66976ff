"""Integrations are switched off and on again."""

from meterlake.model.integrations import IntegrationConfig
from meterlake.pipeline.config.entities import Document, entity_document
from meterlake.stores import Stores
from meterlake.stores.state.integrations.health import Health, forget_health, write_health


def enable_integration(stores: Stores, org_id: str, author: str, id: str) -> Document:
    """Let an integration run again, as if nothing had failed; runs that ended meanwhile stay ended.

    Raises:
        NotFound: There is no such integration.
    """
    with stores.state.transaction(org_id, author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        for each in filter(None, (id, record.entity.destination_id)):
            forget_health(transaction.connection, org_id, each)
        return entity_document(record, transaction)


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
