"""Credentials that are changed count as good ones until the other system refuses them."""

from typing import Any

from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.rules.integrations import credentials_id
from meterlake.stores.state import Transaction
from meterlake.stores.state.integrations.refusals import forget_refusals


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
