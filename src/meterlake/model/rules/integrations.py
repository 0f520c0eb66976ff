"""Rules of webhooks and integrations, and what is computed of them."""

from typing import Any, Final

from pydantic.alias_generators import to_camel

from meterlake.model.bills.template_members import check_members
from meterlake.model.configuration.integration_systems import (
    BILL,
    NOTIFICATION,
    STRIPE,
    STRIPE_TEST,
    BillOptions,
    HttpOptions,
    IntegrationSystem,
    is_test_key,
    system_of,
    systems,
)
from meterlake.model.configuration.integrations import (
    ALL_ENTITIES,
    SECRET_PREFIX,
    CredentialsType,
    ExternalMapping,
    IntegrationConfig,
    IntegrationCredentials,
    RunStatus,
    WebhookDestination,
    is_signing_secret,
)
from meterlake.model.configuration.network_addresses import Endpoint
from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, Invalid, NotFound, Required
from meterlake.model.rules.proposed import Proposed
from meterlake.model.rules.references import existing
from meterlake.model.values.entity import Configuration, IntegrationFacts, Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.secrets import MASK
from meterlake.model.values.untrusted import fits_header


def webhook_has_url(new: Proposed[WebhookDestination]) -> None:
    """A webhook has the URL of a host; which hosts are allowed the settings say."""
    Endpoint.of(new.entity.url)


def webhook_can_sign(new: Proposed[WebhookDestination]) -> None:
    """The key fits into a header, and the secret is what every receiver takes it for."""
    if not new.edited:
        return
    credentials = new.entity.credentials
    _check_header("credentials.apiKey", credentials.api_key)
    if credentials.api_key == MASK:
        # It is shown as it is: a mask can only come from a program that hides it by itself.
        raise Invalid(
            "credentials.apiKey", MASK, "it stands for a key that is not shown; give the key itself"
        )
    if not is_signing_secret(credentials.secret):
        rule = f"after {SECRET_PREFIX} there must be Base64; give that, or a secret that begins otherwise"
        raise Invalid("credentials.secret", "***", rule)


def _check_header(field: str, text: str) -> None:
    if not fits_header(text):
        rule = "it must be text without line ends, and without spaces at either end"
        raise Invalid(field, "***", rule)


def credentials_shown(
    record: Record[WebhookDestination], configuration: Configuration
) -> dict[str, Any]:
    """Credentials with the id that the contract gives them, and the webhook that they belong to."""
    del configuration
    shown = record.entity.credentials.model_dump(by_alias=True, exclude_none=True)
    identity = derived_id("webhook credentials", record.id)
    return {"credentials": {**shown, "id": identity, "destinationId": record.id}}


def integration_fits_its_system(new: Proposed[IntegrationConfig]) -> None:
    """The system is installed, takes the entities, and understands the configuration."""
    if not new.edited:
        return  # Somebody else's connector may be gone; what else changes has nothing to do with it.
    config = new.entity
    system = system_of(config.destination)
    if config.entity_type.lower() not in {each.lower() for each in system.entity_types}:
        taken = ", ".join(system.entity_types)
        raise Invalid(
            "entityType",
            config.entity_type,
            f"{system.name} takes only {taken}; choose one of them",
        )
    options = system.read_options(config.config_data)
    _check_credentials(new, system)
    if system.needs_webhook and config.destination_id is None:
        raise Required("destinationId")
    if isinstance(options, BillOptions):
        for name in _ACCOUNTS:
            for number, id_ in enumerate(getattr(options, name)):
                existing(Account, f"configData.{to_camel(name)}[{number}]", id_, new.configuration)
    before = {} if new.before is None else new.before.config_data
    if isinstance(options, HttpOptions) and options.template != before.get("template"):
        check_members("configData.template", options.template)


def _check_credentials(new: Proposed[IntegrationConfig], system: IntegrationSystem) -> None:
    credentials, shared = new.entity.credentials, new.entity.integration_credentials_id
    if credentials is not None:
        if credentials.type not in system.credentials:
            possible = ", ".join(system.credentials) or "no credentials"
            raise Invalid(
                "credentials.type", credentials.type.value, f"{system.name} takes {possible}"
            )
        check_fields_of(credentials)
        _check_mode(system, credentials)
    elif shared is not None and BILL in system.entity_types:
        owner = _owner_of(shared, new.configuration)
        if owner is None or owner.destination.upper() != system.name:
            rule = f"it must be the integrationCredentialsId of an integration of {system.name} that has them"
            raise Invalid("integrationCredentialsId", shared, rule)
        if owner.hosts() != new.entity.hosts():
            rule = "give the id of an integration that sends to the same host"
            raise Invalid("integrationCredentialsId", shared, rule)


def _check_mode(system: IntegrationSystem, credentials: IntegrationCredentials) -> None:
    """Refuse a key of the other mode of Stripe, or one that is no secret: nothing could be sent."""
    key = credentials.api_key
    if key is None or system.name not in {STRIPE.name, STRIPE_TEST.name}:
        return
    if key.startswith(_NO_SECRETS):
        rule = "it must be a secret key (sk_…) or a restricted one (rk_…), which is the one that may write"
        raise Invalid("credentials.apiKey", f"{key[:_MODE_END]}***", rule)
    if is_test_key(key) != (system is STRIPE_TEST):
        other = STRIPE if system is STRIPE_TEST else STRIPE_TEST
        rule = f"it is a key for {other.name}; give one for {system.name}"
        raise Invalid("credentials.apiKey", f"{key[:_MODE_END]}***", rule)


def named_ids(config: IntegrationConfig) -> frozenset[str]:
    """The notification that an integration is about, and the accounts that its configuration names."""
    found: list[Any] = []
    if config.entity_type.upper() == NOTIFICATION.upper() and config.entity_id is not None:
        found.append(config.entity_id)
    for name in _ACCOUNTS:
        listed = config.config_data.get(to_camel(name))
        found += listed if isinstance(listed, list | tuple) else ()
    return frozenset(each.lower() for each in found if isinstance(each, str))


def mapping_is_the_only_one(new: Proposed[ExternalMapping]) -> None:
    """An entity is one thing in a table of another system, for all or for one integration."""
    mapping = new.entity
    if not new.edited:
        return
    for other in new.configuration.where(ExternalMapping, "m3ter_id", mapping.m3ter_id):
        known = other.entity
        is_same = other.id == new.id or known.external_id == mapping.external_id
        if not is_same and known.scope() == mapping.scope():
            raise Conflict(
                f"{known.m3ter_entity} {known.m3ter_id} is {known.external_id!r} in "
                f"{known.external_table} of {known.external_system} already: mapping {other.id}; change or"
                " delete that mapping first"
            )


def check_fields_of(credentials: IntegrationCredentials) -> None:
    """Refuse credentials without the fields that their type needs.

    Raises:
        Required: One is missing.
        Invalid: A key does not fit into the header that it is sent in.
    """
    for name in _NEEDED.get(credentials.type, ()):
        if getattr(credentials, name) is None:
            raise Required(f"credentials.{to_camel(name)}")
    if credentials.api_key is not None:
        _check_header("credentials.apiKey", credentials.api_key)


def fields_of(type_: CredentialsType) -> tuple[str, ...]:
    """The fields that credentials of a type need, by their wire names."""
    return tuple(to_camel(name) for name in _NEEDED.get(type_, ()))


def credentials_id(record_id: str) -> str:
    """The id by which others use the credentials of an integration, too."""
    return derived_id("integration credentials", record_id)


def find_shared(
    config: IntegrationConfig, configuration: Configuration
) -> IntegrationCredentials | None:
    """The credentials that an integration shares with one that has them, for the same host alone."""
    owner = _owner_of(config.integration_credentials_id or "", configuration)
    return None if owner is None or owner.hosts() != config.hosts() else owner.credentials


def _owner_of(id: str, configuration: Configuration) -> IntegrationConfig | None:
    for record in configuration.all(IntegrationConfig):
        known = {credentials_id(record.id), record.entity.integration_credentials_id}
        if record.entity.credentials is not None and id in known:
            return record.entity
    return None


def integration_state(
    record: Record[IntegrationConfig], configuration: Configuration
) -> dict[str, Any]:
    """How it is doing, and its newest run: some clients take a configuration for a run."""
    config = record.entity
    facts = configuration.integration_facts(record.id, config.destination_id)
    disabled = (
        facts.disabled
        or _reason_of_webhook(config, configuration)
        or _reason_of_notification(config, configuration)
    )
    state: dict[str, Any] = {
        "authorized": _is_authorized(record, configuration, facts),
        "enabled": disabled is None,
        "status": facts.status or RunStatus.WAITING.value,
        "dtStarted": facts.started,
        "dtCompleted": facts.completed,
        "error": disabled or facts.error,
        "url": facts.url,
        "externalId": facts.external_id,
        "entityId": config.entity_id or ALL_ENTITIES,
    }
    if config.credentials is not None and config.integration_credentials_id is None:
        state["integrationCredentialsId"] = credentials_id(record.id)
    return {name: value for name, value in state.items() if value is not None}


def _reason_of_webhook(config: IntegrationConfig, configuration: Configuration) -> str | None:
    """Why a webhook gets nothing although nothing has failed: somebody switched it off."""
    if config.destination_id is None:
        return None
    is_active = configuration.get(WebhookDestination, config.destination_id).entity.active
    return None if is_active else "the webhook is not active"


def _reason_of_notification(config: IntegrationConfig, configuration: Configuration) -> str | None:
    """Why there is nothing to send: the one notification that it is about is off, or was deleted."""
    if config.entity_type.upper() != NOTIFICATION.upper() or config.entity_id is None:
        return None
    try:
        notification = configuration.get(NotificationConfiguration, config.entity_id)
    except NotFound:
        return f"there is no notification {config.entity_id} any more"
    return None if notification.entity.active else "its notification is not active"


def _is_authorized(
    record: Record[IntegrationConfig], configuration: Configuration, facts: IntegrationFacts
) -> bool:
    """Whether the other system knows who calls, as far as it was asked since the last change."""
    config, system = record.entity, systems().get(record.entity.destination.upper())
    if system is None:
        return False
    if facts.is_refused:
        return False
    shared = config.integration_credentials_id
    if config.credentials is None and shared is not None and BILL in system.entity_types:
        return find_shared(config, configuration) is not None
    return config.credentials is not None or not system.needs_credentials


# Members of the configuration of an integration of bills that list accounts.
_ACCOUNTS: Final = ("account_ids", "restricted_account_ids")
# What begins like this signs or shows, and writes nothing.
_NO_SECRETS: Final = ("pk_", "whsec_")
# `sk_live_`
_MODE_END: Final = 8
_NEEDED: Final = {
    CredentialsType.HTTP_BASIC: ("username", "password"),
    CredentialsType.STATIC_API_KEY: ("api_key",),
    CredentialsType.STRIPE_SIGNED_REQUEST: ("api_key",),
    CredentialsType.OAUTH_CLIENT_CREDENTIALS: ("client_id", "client_secret", "token_url"),
}
