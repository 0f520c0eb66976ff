"""Webhooks and runs for tests of what is sent to them."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from meterlake.model.configuration.integrations import WebhookDestination
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import integrations
from meterlake.pipeline.config.entities import Document, ResourceRef
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.pipeline.integrations.http_client import HttpClient
from meterlake.pipeline.integrations.sender import Sender
from meterlake.stores import Organization, Stores
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.queues import RunTry, tries_of
from meterlake.stores.state.integrations.runs import (
    IntegrationRun,
    NewRuns,
    RunContent,
    RunFilters,
    find_run,
    page_of_runs,
)

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
WEBHOOKS = BY_NAME["webhooks"]
TIMEOUT_S = 60.0


def webhook_document(url: str, **changes: Any) -> Document:
    """A webhook as callers of the API write it."""
    credentials = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "the key", "secret": SECRET}
    fields = {"name": url, "description": "test", "url": url, "credentials": credentials}
    return {**fields, **changes}


def new_webhook(organization: Organization, url: str, **changes: Any) -> Document:
    """Create a webhook."""
    document = webhook_document(url, **changes)
    return integrations.create_webhook(organization, "test", ResourceRef(WEBHOOKS, {}), document)


def update_webhook(organization: Organization, before: Document, **changes: Any) -> Document:
    """Change a webhook."""
    names = ("name", "description", "url", "credentials", "version")
    document = {name: before[name] for name in names} | changes
    ref = ResourceRef(WEBHOOKS, {}, before["id"])
    return integrations.update_webhook(organization, "test", ref, document)


def content_for(webhook: Document, number: int = 0, **changes: Any) -> RunContent:
    """What a notification sends."""
    body = json.dumps({"type": "billing.bill.created", "data": {"number": number, "text": "Größe"}})
    fields: dict[str, Any] = {
        "entity_type": "Notification",
        "entity_id": "rule",
        "destination": "WEBHOOK",
        "destination_id": webhook["id"],
        "run_key": str(uuid4()),
        "body": body,
    }
    return RunContent(**{**fields, **changes})


def add_runs(organization: Organization, contents: Sequence[RunContent]) -> list[str]:
    """Have runs wait."""
    with organization.transaction("test") as transaction:
        new = NewRuns(transaction.connection, organization.id, transaction.now, transaction.new_id)
        return new.add(contents)


def client_of(stores: Stores, timeout: float = TIMEOUT_S) -> HttpClient:
    """A client that has more patience with a busy machine than the real one."""
    return HttpClient(address_policy(stores.settings), timeout=timeout)


def send_due(stores: Stores, client: HttpClient | None = None, known: Any = None) -> None:
    """Send all that is due."""

    async def work() -> None:
        await Sender(stores, client or client_of(stores), known).drain()

    asyncio.run(work())


def run_of(organization: Organization, id: str) -> IntegrationRun:
    """One run."""
    with organization.reading() as reader:
        return find_run(reader.connection, organization.id, id)


def runs_of(organization: Organization, **filters: Any) -> list[IntegrationRun]:
    """The newest runs."""
    with organization.reading() as reader:
        return page_of_runs(
            reader.connection, organization.id, RunFilters(**filters), Page(200, None)
        )[0]


def tries(organization: Organization, id: str) -> list[RunTry]:
    """The tries of a run."""
    with organization.reading() as reader:
        return tries_of(reader.connection, id)


def stored_webhook(organization: Organization, id: str) -> Any:
    """A webhook as it is stored."""
    with organization.reading() as reader:
        return reader.get(WebhookDestination, id)
