"""The systems that integrations lead to, declared one row each: what they take and how they are configured.

What sends to a system is its connector, which has its declaration. Connectors of other people are
entry points of the group `meterlake.connectors`: an object with `declaration`, `concurrency` and
`send`, or a class of such objects.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Annotated, Any, Final, get_args

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticUndefined

from meterlake.model.configuration.integrations import CredentialsType
from meterlake.model.configuration.network_addresses import Endpoint
from meterlake.model.errors import Invalid
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Days, Flag, Id, LongText, Text
from meterlake.model.values.json_templates import TEMPLATE_MAX, check_template
from meterlake.model.values.problems import UNKNOWN, problems, refuse, suggest_name

GROUP: Final = "meterlake.connectors"
BILL: Final = "Bill"
NOTIFICATION: Final = "Notification"
_DATA: Final = "configData"
EXTERNAL_ID: Final = "{externalId}"
BILL_ID: Final = "{billId}"
PLACEHOLDERS: Final = (EXTERNAL_ID, BILL_ID)
# A body that nobody takes for a bill.
DELETE_TEMPLATE: Final = (
    '{"type": "billing.bill.deleted", "externalId": {{ externalId | tojson }},'
    ' "bill": {{ bill | tojson }}}'
)
_log: Final = logging.getLogger("meterlake.integrations")


# What HTTP itself, or the connector, says in a request.
_OWN_HEADERS: Final = frozenset(
    {
        *("accept", "connection", "content-length", "content-type", "expect", "host"),
        *("idempotency-key", "te", "trailer", "transfer-encoding", "upgrade", "user-agent"),
    }
)


def _key_header(name: str) -> str:
    if name.lower() in _OWN_HEADERS:
        raise PydanticCustomError(
            "rule", "{rule}", {"rule": "it must be a header that requests do not have"}
        )
    return name


def _url(url: str) -> str:
    try:
        Endpoint.of(url)
    except Invalid as error:
        raise PydanticCustomError("rule", "{rule}", {"rule": error.args[2]}) from None
    return url


def _url_of_deletion(url: str) -> str:
    """An address whose path may have the ids of a bill: nobody else chooses its host."""
    scheme, mark, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    for name in PLACEHOLDERS:
        path = path.replace(name, "id")
    if set("{}") & {*host, *path}:
        named = " and ".join(PLACEHOLDERS)
        rule = f"it must be an address with at most {named} in its path"
        raise PydanticCustomError("rule", "{rule}", {"rule": rule})
    _url(f"{scheme}{mark}{host}{slash}{path}")
    return url


class IntegrationOptions(Value):
    """What `configData` holds for a system; other names are refused."""

    model_config = ConfigDict(extra="forbid")


class WebhookOptions(IntegrationOptions):
    """What can be said of every integration."""

    users_to_notify: tuple[Id, ...] = Field(
        (), description="The users whom a letter tells that the integration was disabled."
    )


class BillOptions(IntegrationOptions):
    """What can be said of every integration of bills."""

    account_ids: tuple[Id, ...] = Field((), description="Only bills of these accounts are sent.")
    restricted_account_ids: tuple[Id, ...] = Field(
        (), description="Bills of these accounts are never sent."
    )
    send_bills_on_approval: Flag = Field(
        default=False,
        description="A bill is sent when it is approved, and not each time it is calculated.",
    )
    users_to_notify: tuple[Id, ...] = Field(
        (), description="The users whom a letter tells that the integration was disabled."
    )


class HttpMethod(StrEnum):
    """How a body is sent."""

    POST = "POST"
    PUT = "PUT"


class DeleteMethod(StrEnum):
    """How a bill is taken back."""

    POST = "POST"
    PUT = "PUT"
    PATCH = "PATCH"
    DELETE = "DELETE"


class HttpOptions(BillOptions):
    """What the destination `HTTP` has to know."""

    url: Annotated[LongText, AfterValidator(_url)] = Field(description="Where bills are sent.")
    method: HttpMethod = Field(HttpMethod.POST, description="How they are sent.")
    template: Annotated[Text, AfterValidator(check_template)] = Field(
        "{{ bill | tojson }}",
        max_length=TEMPLATE_MAX,
        description="The JSON body, a template of Jinja2 with `bill` and `account`.",
    )
    key_header: Annotated[
        Text, Field(pattern=r"^[A-Za-z0-9-]{1,100}$"), AfterValidator(_key_header)
    ] = Field(
        "Authorization", description="The header of a STATIC_API_KEY; there it is a bearer token."
    )
    id_path: LongText | None = Field(
        None, description="Where the answer has the id of what was made: `data.id`."
    )
    url_path: LongText | None = Field(None, description="Where the answer has its address.")
    delete_url: Annotated[LongText, AfterValidator(_url_of_deletion)] | None = Field(
        None,
        description="Where a bill that was sent is taken back when it is deleted; `{externalId}`"
        " and `{billId}` in it stand for its ids. Without it that is the `url`.",
    )
    delete_method: DeleteMethod | None = Field(
        None, description="How it is taken back: DELETE with a `deleteUrl`, else the `method`."
    )
    delete_template: Annotated[Text, AfterValidator(check_template)] = Field(
        DELETE_TEMPLATE,
        max_length=TEMPLATE_MAX,
        description="The JSON body of that, a template with `bill`, `account` and `externalId`.",
    )


class SplitBy(StrEnum):
    """What becomes one item of an invoice."""

    BILL = "BILL"
    PRODUCT = "PRODUCT"
    AGGREGATION = "AGGREGATION"


class StripeOptions(BillOptions):
    """What Stripe has to know."""

    split_by: SplitBy = Field(
        SplitBy.AGGREGATION, description="What becomes one item of the invoice."
    )
    finalize: Flag = Field(
        default=True, description="Whether the invoice is finalized; otherwise it stays a draft."
    )
    days_until_due: Days | None = Field(
        None, description="Days until it is due; without them the customer is charged."
    )


class MarketplaceOptions(BillOptions):
    """What the AWS Marketplace has to know."""

    product_code: Annotated[Text, Field(min_length=1, max_length=255)] = Field(
        description="The code of the product."
    )
    dimension: Annotated[Text, Field(min_length=1, max_length=255)] = Field(
        description="The dimension that costs one cent each."
    )
    region: Annotated[Text, Field(pattern=r"^[a-z0-9-]{1,40}$")] = Field(
        "us-east-1", description="The region of the metering service."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSetting:
    """One member of `configData`."""

    name: str
    type: str
    required: bool
    description: str
    default: Any = None
    values: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """As discovery shows it."""
        names = ("name", "type", "required", "description", "default", "values")
        found = {name: getattr(self, name) for name in names}
        return {name: value for name, value in found.items() if value not in (None, ())}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrationSystem:
    """A system that something can be sent to.

    Attributes:
        name: In upper case, as `destination` of a configuration has it.
        display_name: As people call it.
        entity_types: What it takes: `Bill`, `Notification`.
        credentials: The ways to sign in.
        needs_credentials: Whether it works with none of them.
        needs_webhook: Whether a configuration names a webhook.
        options: What `configData` may hold.
        tables: What entities are mapped to there: `{"Account": "Customer"}`.
        categories: What it is for.
    """

    name: str
    display_name: str
    entity_types: tuple[str, ...]
    credentials: tuple[CredentialsType, ...] = ()
    needs_credentials: bool = False
    needs_webhook: bool = False
    options: type[Value] = BillOptions
    tables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    categories: tuple[str, ...] = ()

    def read_options(self, data: Mapping[str, Any]) -> Any:
        """Read `configData`.

        Raises:
            Invalid: A member breaks a rule, is missing or unknown; the sentence names it.
        """
        try:
            return self.options.model_validate(dict(data), by_alias=True, by_name=False)
        except ValidationError as error:
            refuse([_in_data(each, self) for each in problems(error)])
            raise

    def settings(self) -> tuple[ConfigSetting, ...]:
        """The members of `configData`."""
        fields = self.options.model_fields
        return tuple(_setting(name, each) for name, each in fields.items())


def _in_data(problem: Invalid, system: IntegrationSystem) -> Invalid:
    name, value, rule = problem.args
    if rule == UNKNOWN:
        names = [each.name for each in system.settings()]
        near, listed = suggest_name(name, names), f"it must be one of {', '.join(names)}"
        rule = f"{near} {listed[0].upper()}{listed[1:]}" if near.startswith("did you") else listed
    return type(problem)(f"{_DATA}.{name}", value, rule)


def _setting(name: str, field: FieldInfo) -> ConfigSetting:
    default = None if field.default is PydanticUndefined else field.default
    inner = [each for each in get_args(field.annotation) if each is not type(None)]
    kind = inner[0] if type(None) in get_args(field.annotation) and inner else field.annotation
    kind = getattr(kind, "__origin__", None) or kind
    return ConfigSetting(
        name=field.alias or name,
        type=_TYPES.get(kind, "string"),
        required=field.is_required(),
        description=field.description or "",
        default=getattr(default, "value", default),
        values=tuple(getattr(kind, "__members__", ())),
    )


_TYPES: Final[dict[Any, str]] = {bool: "boolean", int: "integer", tuple: "array", dict: "object"}

WEBHOOK: Final = IntegrationSystem(
    name="WEBHOOK",
    display_name="Webhook",
    entity_types=(NOTIFICATION,),
    credentials=(CredentialsType.M3TER_SIGNED_REQUEST,),
    needs_webhook=True,
    options=WebhookOptions,
    categories=("Notifications",),
)
HTTP: Final = IntegrationSystem(
    name="HTTP",
    display_name="HTTP",
    entity_types=(BILL,),
    credentials=(
        CredentialsType.HTTP_BASIC,
        CredentialsType.STATIC_API_KEY,
        CredentialsType.OAUTH_CLIENT_CREDENTIALS,
    ),
    options=HttpOptions,
    tables={BILL: BILL},
    categories=("Billing",),
)
STRIPE: Final = IntegrationSystem(
    name="STRIPE",
    display_name="Stripe",
    entity_types=(BILL,),
    credentials=(CredentialsType.STRIPE_SIGNED_REQUEST, CredentialsType.STATIC_API_KEY),
    needs_credentials=True,
    options=StripeOptions,
    tables={"Account": "Customer", BILL: "Invoice"},
    categories=("Billing",),
)
STRIPE_TEST: Final = replace(STRIPE, name="STRIPE_TEST", display_name="Stripe test")


def is_test_key(key: str) -> bool:
    """Whether a key of Stripe is one of its test mode: `sk_test_…`, `rk_test_…`."""
    return "_test_" in key[:8]


AWS: Final = IntegrationSystem(
    name="AWS",
    display_name="AWS Marketplace",
    entity_types=(BILL,),
    credentials=(CredentialsType.AWS_INTEGRATION,),
    options=MarketplaceOptions,
    tables={"Account": "Customer"},
    categories=("Marketplace",),
)
OWN: Final[tuple[IntegrationSystem, ...]] = (AWS, HTTP, STRIPE, STRIPE_TEST, WEBHOOK)


@cache
def systems() -> Mapping[str, IntegrationSystem]:
    """All systems that are installed, by name."""
    found = {each.name: each for each in OWN}
    for connector in foreign_connectors():
        found.setdefault(connector.declaration.name, connector.declaration)
    return MappingProxyType(found)


def system_of(destination: str) -> IntegrationSystem:
    """The system of a destination, in whatever case.

    Raises:
        Invalid: It is not installed.
    """
    found = systems().get(destination.upper())
    if found is None:
        installed = ", ".join(sorted(systems()))
        raise Invalid(
            "destination", destination, f"it must be a system that is installed: {installed}"
        )
    return found


@cache
def foreign_connectors() -> tuple[Any, ...]:
    """The connectors of other people; one that cannot be used is logged and left out."""
    connectors: list[Any] = []
    own = {each.name for each in OWN}
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            loaded = point.load()
            connector = loaded() if isinstance(loaded, type) else loaded
            name = connector.declaration.name
            if not (callable(connector.send) and connector.concurrency > 0):
                raise TypeError("it has no `send`, or a concurrency of 0")  # noqa: TRY301
        except Exception:  # noqa: BLE001 - whatever their code does
            _log.exception("the connector %r of %s cannot be used", point.name, point.value)
            continue
        if name in own:
            _log.warning("the connector %r is left out: %s is meterlake's own", point.name, name)
            continue
        connectors.append(connector)
    return tuple(connectors)
