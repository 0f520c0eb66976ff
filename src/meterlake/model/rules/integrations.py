"""Rules of webhooks and integrations, and what is computed of them."""

from typing import Any

from meterlake.model.addresses import Endpoint
from meterlake.model.entity import Configuration, Record
from meterlake.model.ids import derived_id
from meterlake.model.integrations import IntegrationConfig, RunStatus, WebhookDestination
from meterlake.model.rules.proposed import Proposed


def webhook_has_url(new: Proposed[WebhookDestination]) -> None:
    """A webhook has the URL of a host; which hosts are allowed the settings say."""
    Endpoint.of(new.entity.url)


def credentials_shown(
    record: Record[WebhookDestination], configuration: Configuration
) -> dict[str, Any]:
    """Credentials with the id that the contract gives them, and the webhook that they belong to."""
    del configuration
    shown = record.entity.credentials.model_dump(by_alias=True, exclude_none=True)
    identity = derived_id("webhook credentials", record.id)
    return {"credentials": {**shown, "id": identity, "destinationId": record.id}}


def integration_state(
    record: Record[IntegrationConfig], configuration: Configuration
) -> dict[str, Any]:
    """Nothing has run yet and nothing was disabled; only webhooks need no other system's consent."""
    del configuration
    webhook = record.entity.destination.upper() == "WEBHOOK"
    state = {"authorized": webhook, "enabled": True, "status": RunStatus.WAITING.value}
    # Clients expect one; without it the integration is for all entities of its type.
    return state if record.entity.entity_id else {**state, "entityId": "*"}
