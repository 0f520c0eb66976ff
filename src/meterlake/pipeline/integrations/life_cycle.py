"""Integrations are switched off and on again, and deleted; letters tell people of one that fails."""

from enum import StrEnum
from typing import Any, Final

from meterlake.model.configuration.integrations import (
    ExternalMapping,
    IntegrationConfig,
    RunStatus,
    WebhookDestination,
)
from meterlake.model.errors import Conflict
from meterlake.pipeline.config.entities import Document, delete_in, entity_document
from meterlake.pipeline.config.webhook_addresses import PEOPLE
from meterlake.pipeline.integrations.runs import repeat_deletions
from meterlake.stores import Organization, Stores
from meterlake.stores.mail import Outbox, without_links
from meterlake.stores.state import Reader
from meterlake.stores.state.access.people import users
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.health import (
    HEALTHY,
    Health,
    forget_health,
    health_of,
    write_health,
)
from meterlake.stores.state.integrations.runs import RunFilters, page_of_runs

_SUBJECT: Final = "An integration of meterlake was disabled"
_TEXT: Final = """Hello {person},

meterlake sends nothing to {name} any more:

{reason}

Runs that wait for it, and new ones, are not sent until somebody switches it on again.
Then they can be replayed.
"""
_PEOPLE_MAX: Final = 100


class MappingChoice(StrEnum):
    """What becomes of the external mappings of an integration that is deleted."""

    KEEP = "keep"
    DELETE = "delete"


def enable_integration(organization: Organization, author: str, id: str) -> Document:
    """Let an integration run again, as if nothing had failed; runs that ended meanwhile stay ended.

    Bills that were deleted meanwhile are taken back now.

    A webhook that failures switched off is switched on with it, one that people did is not.

    Raises:
        NotFound: There is no such integration.
    """
    with organization.transaction(author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        webhook_id = record.entity.destination_id
        if webhook_id is not None:
            found = health_of(transaction.connection, transaction.org_id, [webhook_id]).get(
                webhook_id, HEALTHY
            )
            forget_health(transaction.connection, transaction.org_id, webhook_id)
            webhook = transaction.get(WebhookDestination, webhook_id)
            if found.disabled is not None and not webhook.entity.active:
                on = webhook.entity.model_copy(update={"active": True})
                transaction.update(webhook_id, webhook.version, on)
        forget_health(transaction.connection, organization.id, id)
        repeat_deletions(transaction, id)
        return entity_document(record, transaction)


def disable_integration(organization: Organization, author: str, id: str) -> Document:
    """Send nothing more for an integration until it is enabled; runs whose turn comes are DISABLED.

    Raises:
        NotFound: There is no such integration.
    """
    with organization.transaction(author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        off = Health(disabled=transaction.now, reason=f"it was disabled by {author}")
        write_health(transaction.connection, organization.id, id, off)
        return entity_document(record, transaction)


def delete_integration(
    organization: Organization, author: str, id: str, mappings: MappingChoice = MappingChoice.KEEP
) -> Document:
    """Delete an integration; answers with what it was.

    Args:
        organization: The organization.
        author: Who does it.
        id: The integration.
        mappings: Whether what bills became there stays written down, for all integrations of the
            system. Without it another integration sends a bill as if it had never been sent.

    Raises:
        NotFound: There is no such integration.
        Conflict: A run is being sent at this moment, or a mapping that stays would say something
            else than one of the whole system.
    """
    with organization.transaction(author) as transaction:
        record = transaction.get(IntegrationConfig, id)
        gone = entity_document(record, transaction)
        sending = RunFilters(config_id=id, statuses=(RunStatus.STARTED,))
        under_way, _ = page_of_runs(transaction.connection, organization.id, sending, Page(1, None))
        if under_way:
            raise Conflict(f"the run {under_way[0].id} is being sent; try again when it has ended")
        if mappings is MappingChoice.DELETE:
            for mapping in transaction.referring(ExternalMapping, IntegrationConfig, id):
                delete_in(transaction, mapping)
        delete_in(transaction, record)
        forget_health(transaction.connection, organization.id, id)
        return gone


def write_letters(stores: Stores, reader: Reader, destination_id: str, name: str, why: str) -> None:
    """Put a letter to each of the people into the outbox of the home.

    Raises:
        Unavailable: The outbox cannot be written.
    """
    named: set[str] = set()
    for each in reader.all(IntegrationConfig):
        given: Any = each.entity.config_data.get(PEOPLE)
        if destination_id in {each.id, each.entity.destination_id} and isinstance(given, list):
            named.update(id_ for id_ in given if isinstance(id_, str))
    ids = sorted(named)
    if not ids:
        return
    now = stores.now()
    for user in users(reader, Page(_PEOPLE_MAX), ids[:_PEOPLE_MAX])[0]:
        if user.has_access(now):
            # All three are words of others, the reason those of a receiver.
            words = {"person": user.person.first_name, "name": name, "reason": why}
            text = _TEXT.format(**{key: without_links(each) for key, each in words.items()})
            Outbox(stores.home).put(user.person.email, _SUBJECT, text, now)
