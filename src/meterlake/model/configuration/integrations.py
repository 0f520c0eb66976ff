"""Other systems: where notifications are sent, what is handed over, and what it is called there.

Secrets that deliveries are signed with, as Standard Webhooks writes them.
"""

import base64
import binascii
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, WithJsonSchema
from pydantic_core import PydanticCustomError

from meterlake.model.configuration.network_addresses import origin_of
from meterlake.model.configuration.queries import Label
from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import Code, Flag, Id, Integer, LongText, Number, Secret, Text
from meterlake.model.values.ids import CODE_PATTERN

URL_MAX: Final = 2048
_DEPTH_MAX: Final = 20

_TEXT: Final[TypeAdapter[str]] = TypeAdapter(Text)
_NUMBER: Final[TypeAdapter[Any]] = TypeAdapter(Number)
SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - no secret itself


class DestinationType(StrEnum):
    """A system that credentials are for."""

    WEBHOOK = "WEBHOOK"
    NETSUITE = "NETSUITE"
    STRIPE = "STRIPE"
    STRIPE_TEST = "STRIPE_TEST"
    AWS = "AWS"
    PADDLE = "PADDLE"
    PADDLE_SANDBOX = "PADDLE_SANDBOX"
    SALESFORCE = "SALESFORCE"
    XERO = "XERO"
    CHARGEBEE = "CHARGEBEE"
    QUICKBOOKS = "QUICKBOOKS"
    QUICKBOOKS_SANDBOX = "QUICKBOOKS_SANDBOX"
    M3TER = "M3TER"


class CredentialsType(StrEnum):
    """How a system wants to be signed in to."""

    HTTP_BASIC = "HTTP_BASIC"
    OAUTH_CLIENT_CREDENTIALS = "OAUTH_CLIENT_CREDENTIALS"
    M3TER_SIGNED_REQUEST = "M3TER_SIGNED_REQUEST"
    AWS_INTEGRATION = "AWS_INTEGRATION"
    PADDLE_AUTH = "PADDLE_AUTH"
    NETSUITE_AUTH = "NETSUITE_AUTH"
    CHARGEBEE_AUTH = "CHARGEBEE_AUTH"
    M3TER_APP_SIGNATURE = "M3TER_APP_SIGNATURE"
    M3TER_SERVICE_USER = "M3TER_SERVICE_USER"
    STRIPE_SIGNED_REQUEST = "STRIPE_SIGNED_REQUEST"
    HUBSPOT_ACCESS_TOKEN = "HUBSPOT_ACCESS_TOKEN"  # noqa: S105
    HUBSPOT_CLIENT_SECRET = "HUBSPOT_CLIENT_SECRET"  # noqa: S105
    OPSGENIE_KEY = "OPSGENIE_KEY"
    SAP_BYD = "SAP_BYD"
    SLACK_WEBHOOK = "SLACK_WEBHOOK"
    SAGE_INTACCT_CLIENT_CREDENTIALS = "SAGE_INTACCT_CLIENT_CREDENTIALS"
    SAGE_INTACCT_CLIENT_SECRET = "SAGE_INTACCT_CLIENT_SECRET"  # noqa: S105
    STATIC_API_KEY = "STATIC_API_KEY"


class RunStatus(StrEnum):
    """How a run of an integration goes."""

    WAITING = "WAITING"
    STARTED = "STARTED"
    COMPLETE = "COMPLETE"
    ERROR = "ERROR"
    AWAITING_RETRY = "AWAITING_RETRY"
    AUTH_FAILED = "AUTH_FAILED"
    ACCOUNTING_PERIOD_CLOSED = "ACCOUNTING_PERIOD_CLOSED"
    INVOICE_ALREADY_PAID = "INVOICE_ALREADY_PAID"
    DISABLED = "DISABLED"
    TIMEOUT_LIMIT_EXCEEDED = "TIMEOUT_LIMIT_EXCEEDED"
    RATE_LIMIT_RETRY = "RATE_LIMIT_RETRY"


class RunAction(StrEnum):
    """What a run does with its entity in the other system."""

    SEND = "SEND"
    # It was sent, and is deleted here: it is taken back there.
    DELETE = "DELETE"


class SignedRequestCredentials(Value):
    """What requests to a webhook are signed with."""

    type: Literal[CredentialsType.M3TER_SIGNED_REQUEST]
    api_key: Label
    secret: Secret
    version: Integer | None = None
    empty: Flag | None = None
    name: LongText | None = None
    destination: DestinationType = DestinationType.WEBHOOK


def _fields_alone(value: Any) -> Any:
    # Of anything else the type of the error tells `problems` not to repeat it: it may be the secret.
    if not isinstance(value, dict | SignedRequestCredentials):
        raise PydanticCustomError("secret", "{rule}", {"rule": "it must be a map of fields"})
    return value


class WebhookDestination(Entity):
    """An address to which meterlake sends notifications."""

    name: Label
    description: Label
    code: Code | None = None
    active: Flag = True
    url: Annotated[Text, Field(min_length=1, max_length=URL_MAX)]
    credentials: Annotated[SignedRequestCredentials, BeforeValidator(_fields_alone)]


class IntegrationCredentials(Value):
    """How an integration signs in: which of the fields are needed follows from the type."""

    type: CredentialsType
    version: Integer | None = None
    empty: Flag | None = None
    name: LongText | None = None
    destination: DestinationType | None = None
    username: LongText | None = None
    password: Secret | None = None
    api_key: Secret | None = None
    client_id: LongText | None = None
    client_secret: Secret | None = None
    token_url: LongText | None = None
    scope: LongText | None = None
    role_arn: LongText | None = None


def _plain_data(value: Any, depth: int = 0) -> Any:
    """Data of any shape whose texts and numbers can be stored and written again."""
    if depth > _DEPTH_MAX:
        rule = f"it must be nested at most {_DEPTH_MAX} deep"
        raise PydanticCustomError("rule", "{rule}", {"rule": rule})
    match value:
        case None | bool():
            return value
        case str():
            return _TEXT.validate_python(value)
        case list() | tuple():
            return [_plain_data(item, depth + 1) for item in value]
        case dict():
            return {_TEXT.validate_python(k): _plain_data(v, depth + 1) for k, v in value.items()}
        case _:
            return _NUMBER.validate_python(value)


def _in_json(pattern: str) -> WithJsonSchema:
    # A pattern on a text that is checked by a function too does not get into the schema by itself.
    return WithJsonSchema({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": 5000})


_WORD: Final = r"^[a-zA-Z0-9_-]*$"
Word = Annotated[Label, Field(pattern=_WORD), _in_json(_WORD)]


# What an integration for all entities of its type shows, since clients expect an id there.
ALL_ENTITIES: Final = "*"


def _unless_all(value: Any) -> Any:
    return None if isinstance(value, str) and value in {ALL_ENTITIES, ""} else value


class IntegrationConfig(Entity):
    """Hands entities of one type over to a destination, or notifications to a webhook."""

    entity_type: Word
    entity_id: Annotated[LongText | None, BeforeValidator(_unless_all)] = None
    destination: Word
    destination_id: Id | None = None
    config_data: Annotated[dict[str, Any], Field(max_length=1000), AfterValidator(_plain_data)] = (
        Field(default_factory=dict)
    )
    credentials: IntegrationCredentials | None = None
    integration_credentials_id: LongText | None = None
    name: LongText | None = None

    def secret_receivers(self) -> frozenset[Any]:
        """Who gets the secrets of the credentials: a token is fetched at one address for another."""
        token_url = None if self.credentials is None else self.credentials.token_url
        return self.hosts() | {("tokenUrl", origin_of(token_url or ""))}

    def hosts(self) -> frozenset[Any]:
        """The system, and the origins of the addresses that the configuration names."""
        urls = {name: url for name, url in self.config_data.items() if isinstance(url, str)}
        origins = {(name, origin_of(url)) for name, url in urls.items()}
        return frozenset({self.destination.upper(), *(each for each in origins if each[1])})


ExternalName = Annotated[Label, Field(pattern=CODE_PATTERN), _in_json(CODE_PATTERN)]


class ExternalMapping(Entity):
    """The id of an entity in another system."""

    m3ter_entity: Annotated[ExternalName, Field(alias="m3terEntity")]
    m3ter_id: Annotated[ExternalName, Field(alias="m3terId")]
    external_system: ExternalName
    external_table: ExternalName
    external_id: ExternalName
    integration_config_id: Id | None = None

    def scope(self) -> tuple[str | None, ...]:
        """What it says something about; systems and tables are the same in whatever case."""
        there = (self.external_system.upper(), self.external_table.upper())
        return (self.m3ter_entity, self.m3ter_id, *there, self.integration_config_id)


def key_of_secret(secret: str) -> bytes:
    """The key that a secret stands for: `whsec_` and Base64, or else the text itself."""
    if secret.startswith(SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def is_signing_secret(secret: str) -> bool:
    """Whether all receivers make the same key of it: what `whsec_` begins goes on in Base64."""
    return not secret.startswith(SECRET_PREFIX) or key_of_secret(secret) not in (
        b"",
        secret.encode(),
    )
