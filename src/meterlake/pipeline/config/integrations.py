"""Webhooks and integrations: what goes beyond the standard verbs."""

from typing import Final

from meterlake.model.configuration.integrations import (
    ALL_ENTITIES,
    ExternalMapping,
    IntegrationConfig,
    WebhookDestination,
)
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_ENTITY, Filter
from meterlake.model.resources.listing import FilterValues
from meterlake.model.rules.integrations import credentials_id
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import Document, ResourceRef
from meterlake.pipeline.config.webhook_addresses import (
    check_documented_addresses,
    check_now,
    is_url,
)
from meterlake.stores import Organization, Stores
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.health import forget_health

_SHARED: Final = "integrationCredentialsId"


def create_webhook(
    organization: Organization, author: str, ref: ResourceRef, document: Document
) -> Document:
    """Create a webhook whose host the settings allow."""
    _check_address(organization.stores, document)
    return entities.create(organization, author, ref, document)


def update_webhook(
    organization: Organization, author: str, ref: ResourceRef, document: Document
) -> Document:
    """Replace a webhook's fields; one that is active then is not disabled any more."""
    _check_address(organization.stores, document)
    changed = entities.update(organization, author, ref, document)
    if changed["active"]:
        with organization.state.writing_home() as connection:
            forget_health(connection, organization.id, changed["id"])
    return changed


def create_integration(
    organization: Organization, author: str, ref: ResourceRef, document: Document
) -> Document:
    """Create an integration that sends to a host which the settings allow."""
    check_documented_addresses(organization.settings, document)
    return entities.create(organization, author, ref, document)


def update_integration(
    organization: Organization, author: str, ref: ResourceRef, document: Document
) -> Document:
    """Replace an integration's fields; its hosts are looked at again."""
    check_documented_addresses(organization.settings, document)
    shown = document.get(_SHARED)
    is_own = ref.id is not None and shown == credentials_id(ref.id)
    if is_own and document.get("credentials") is not None:
        # It is shown for others to use; the integration itself has the credentials.
        document = {name: value for name, value in document.items() if name != _SHARED}
    return entities.update(organization, author, ref, document)


def _check_address(stores: Stores, document: Document) -> None:
    # Outside of the transaction: who answers for a name may take their time.
    url = document.get("url")
    if is_url(url):
        check_now(stores.settings, url)


def set_webhook_active(
    organization: Organization, author: str, id: str, *, active: bool
) -> Document:
    """Switch a webhook on or off; nothing else of it changes.

    Raises:
        NotFound: There is no such webhook.
    """
    with organization.transaction(author) as transaction:
        before = transaction.get(WebhookDestination, id)
        if active:
            forget_health(transaction.connection, organization.id, id)
        if before.entity.active is active:
            return entities.entity_document(before, transaction)
        # Past the rules: the address was checked when it was written, its secret is sealed already.
        changed = before.entity.model_copy(update={"active": active})
        return entities.entity_document(
            transaction.update(id, before.version, changed), transaction
        )


def integrations_of_type(
    organization: Organization, criteria: dict[str, str], page: Page
) -> Document:
    """The integrations of an entity type, as a page; the newest one's members stand beside it.

    The contract types the answer as one object, its text speaks of several.

    Raises:
        NotFound: There is none: a page without entries is no such object.
    """
    resource, chosen = BY_ENTITY[IntegrationConfig], dict(criteria)
    filters = []
    if chosen.get("entityId") == ALL_ENTITIES:
        del chosen["entityId"]
        filters.append(FilterValues(Filter("entityId", kind="flag"), (False,)))  # It is absent.
    filters += _filters(chosen)
    found = entities.list_page(organization, resource, filters, page)
    if not found["data"]:
        raise NotFound("integration of entity type", criteria["entityType"])
    return {**found["data"][0], **found}


def mappings_of(organization: Organization, criteria: dict[str, str], page: Page) -> Document:
    """The external mappings whose fields have certain values."""
    resource = BY_ENTITY[ExternalMapping]
    return entities.list_page(organization, resource, _filters(criteria), page)


def _filters(criteria: dict[str, str]) -> list[FilterValues]:
    return [FilterValues(Filter(name, several=True), (value,)) for name, value in criteria.items()]
