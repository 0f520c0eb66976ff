"""Where webhooks and integrations may lead, by the settings.

What the names of their hosts resolve to is looked at when they are saved, too.

The sender looks again at each try, since a name may lead elsewhere by then.
"""

import socket
from collections.abc import Iterator, Mapping
from functools import partial
from ipaddress import ip_address
from typing import Any, Final, TypeGuard

from pydantic import ValidationError

from meterlake.model.configuration.integration_systems import NOTIFICATION, HttpOptions, system_of
from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.configuration.network_addresses import AddressPolicy, Endpoint
from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.rules import Proposed
from meterlake.settings import Settings
from meterlake.stages.config.check import Further
from meterlake.stores.state import Reader
from meterlake.stores.state.access.people import users
from meterlake.stores.state.core.pages import Page

# The member of `configData` that has the ids of users.
PEOPLE: Final = "usersToNotify"


def address_policy(settings: Settings) -> AddressPolicy:
    """Where requests may lead.

    Raises:
        Invalid: The settings name something that is no host and no network.
    """
    return AddressPolicy.of(
        settings.webhook_allow,
        private=settings.webhook_private,
        loopback=settings.webhook_loopback,
    )


def webhook_rules(policy: AddressPolicy, reader: Reader) -> Further:
    """The rules of webhooks and integrations that depend on the settings, and on who is a user."""
    return {
        WebhookDestination: (partial(_leads_where_it_may, policy),),
        IntegrationConfig: (
            partial(_sends_where_it_may, policy),
            partial(_notifies_users, reader),
            partial(_names_notification, reader),
        ),
    }


def check_now(settings: Settings, url: str) -> None:
    """Refuse an address that leads where it must not, or nowhere, at this moment.

    Raises:
        Invalid: It does.
    """
    policy = address_policy(settings)
    endpoint = policy.check_url(url)
    if not isinstance(endpoint.host, str):
        return
    try:
        found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except OSError:
        if settings.webhook_must_resolve:
            raise Invalid("url", url, "it must be a host that has an address now") from None
        return
    policy.check_addresses(endpoint, {ip_address(each[4][0]) for each in found})


def check_documented_addresses(settings: Settings, document: Mapping[str, Any]) -> None:
    """Refuse an integration one of whose hosts leads where it must not, or nowhere, at this moment.

    What else is wrong with the document the rules say.

    Raises:
        Invalid: One does; the sentence names the field.
    """
    try:
        config = IntegrationConfig.from_wire(document)
        addresses = list(_addresses(config))
    except (ValidationError, Invalid, KeyError):
        return
    for field, url in addresses:
        if not is_url(url):
            continue
        try:
            check_now(settings, url)
        except Invalid as error:
            raise Invalid(field, *error.args[1:]) from None


def _leads_where_it_may(policy: AddressPolicy, new: Proposed[WebhookDestination]) -> None:
    before = new.before
    if before is None or before.url != new.entity.url:
        policy.check_url(new.entity.url)


def _sends_where_it_may(policy: AddressPolicy, new: Proposed[IntegrationConfig]) -> None:
    if not new.edited:
        return
    before = {} if new.before is None else dict(_addresses(new.before))
    for field, url in _addresses(new.entity):
        if before.get(field) == url:
            continue
        try:
            policy.check_url(url)
        except Invalid as error:
            raise Invalid(field, *error.args[1:]) from None


def _notifies_users(reader: Reader, new: Proposed[IntegrationConfig]) -> None:
    """Whoever is to get a letter is a user of the organization."""
    named = new.entity.config_data.get(PEOPLE)
    if not new.edited or not named:
        return
    known = {each.person.id for each in users(reader, Page(len(named)), named)[0]}
    for number, id_ in enumerate(named):
        if id_ not in known:
            rule = "it must be the id of a user of the organization"
            raise Invalid(f"configData.{PEOPLE}[{number}]", id_, rule)


def _names_notification(reader: Reader, new: Proposed[IntegrationConfig]) -> None:
    """An integration of one notification names one that is there."""
    config, before = new.entity, new.before
    is_as_before = before is not None and (before.entity_type, before.entity_id) == (
        config.entity_type,
        config.entity_id,
    )
    if is_as_before or config.entity_type.upper() != NOTIFICATION.upper() or not config.entity_id:
        return
    try:
        reader.get(NotificationConfiguration, config.entity_id)
    except NotFound:
        rule = "it must be the id of a notification of the organization"
        raise Invalid("entityId", config.entity_id, rule) from None


def _addresses(config: IntegrationConfig) -> Iterator[tuple[str, str]]:
    """The URLs of an integration that meterlake itself calls, with the field of each."""
    options, credentials = system_of(config.destination).options, config.credentials
    if issubclass(options, HttpOptions):
        yield "configData.url", config.config_data["url"]
        if config.config_data.get("deleteUrl") is not None:
            yield "configData.deleteUrl", config.config_data["deleteUrl"]
    if credentials is not None and credentials.token_url is not None:
        yield "credentials.tokenUrl", credentials.token_url


def is_url(text: object) -> TypeGuard[str]:
    """Whether a text is a URL at all; what else is wrong with it the rules say."""
    try:
        return isinstance(text, str) and bool(Endpoint.of(text))
    except Invalid:
        return False
