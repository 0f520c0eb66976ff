"""Who may do what: principals, permission policies, and the groups and users that have them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from meterlake.model.values.entity import Entity, Value
from meterlake.model.values.fields import Email, Flag, Id, Instant, Name, Text

# The author of what meterlake itself makes; a policy of this author is a managed one.
SYSTEM: Final = "SYSTEM"


# service:resource-type/item/id, service:resource-type/group/id; `*` stands for what it replaces.
_RESOURCE: Final = re.compile(
    r"\*|(?:[\w-]+|\*):(?:\*|[\w-]+)(?:/\*|/(?:item|group)(?:/(?:\*|[\w.-]+))?)?", re.ASCII
)


class PrincipalType(StrEnum):
    """Who a policy can be granted to."""

    USER = "USER"
    USERGROUP = "USERGROUP"
    SERVICEUSER = "SERVICEUSER"
    SUPPORTUSERS = "SUPPORTUSERS"


_AUTHORS: Final = {PrincipalType.USER: "USER", PrincipalType.SERVICEUSER: "SERVICE_USER"}


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks, as a token says.

    Attributes:
        type: A person (`USER`) or a program (`SERVICEUSER`).
        id: The id of the user or of the service user.
        org_id: The one organization that the token is for.
        credential: The access key or the session that the token came from; without it, no token
            is good for long.
    """

    type: PrincipalType
    id: str
    org_id: str
    credential: str

    @property
    def author(self) -> str:
        """The name in `createdBy` and `lastModifiedBy`."""
        return f"{_AUTHORS[self.type]}_{self.id}"

    @classmethod
    def of_author(cls, author: str, org_id: str, credential: str) -> Self:
        """The principal that writes under a name.

        Raises:
            ValueError: The name is no principal's.
        """
        word, _, id_ = author.rpartition("_")
        for type_, known in _AUTHORS.items():
            if word == known:
                return cls(type_, id_, org_id, credential)
        raise ValueError(author)


class PermissionEffect(StrEnum):
    """Whether a statement allows or denies."""

    ALLOW = "allow"
    DENY = "deny"


class PermissionAction(StrEnum):
    """What may be done."""

    ALL = "all"
    CONFIG_CREATE = "config:create"
    CONFIG_RETRIEVE = "config:retrieve"
    CONFIG_UPDATE = "config:update"
    CONFIG_DELETE = "config:delete"
    CONFIG_EXPORT = "config:export"
    ANALYTICS_QUERY = "analytics:query"
    MEASUREMENTS_UPLOAD = "measurements:upload"
    MEASUREMENTS_FILEUPLOAD = "measurements:fileupload"
    MEASUREMENTS_RETRIEVE = "measurements:retrieve"
    MEASUREMENTS_EXPORT = "measurements:export"
    FORECAST_RETRIEVE = "forecast:retrieve"
    HEALTHSCORES_RETRIEVE = "healthscores:retrieve"
    ANOMALIES_RETRIEVE = "anomalies:retrieve"
    EXPORTS_DOWNLOAD = "exports:download"
    MARKETPLACE_USAGE_CREATE = "marketplace:usage:create"
    MARKETPLACE_USAGE_RETRIEVE = "marketplace:usage:retrieve"
    AUDIT_RETRIEVE = "audit:retrieve"


def _in_lower_case(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _action(value: Any) -> Any:
    # The contract's client sends the names in capitals, the documented wire form is the values.
    return PermissionAction.__members__.get(value, value) if isinstance(value, str) else value


def _resource(value: str) -> str:
    # A denial with a slip of the pen would deny nothing, so it is refused when it is written.
    if not _RESOURCE.fullmatch(value):
        rule = "it must be * or service:resource-type/*, .../item/id or .../group/id"
        raise PydanticCustomError("rule", "{rule}", {"rule": rule})
    return value


class PermissionStatement(Value):
    """Allows or denies actions on resources such as `config:meter/*`."""

    effect: Annotated[PermissionEffect, BeforeValidator(_in_lower_case)]
    action: Annotated[
        tuple[Annotated[PermissionAction, BeforeValidator(_action)], ...], Field(max_length=100)
    ]
    resource: Annotated[
        tuple[Annotated[Text, Field(min_length=1, max_length=400), AfterValidator(_resource)], ...],
        Field(min_length=1, max_length=1000),
    ]


def statement_documents(statements: Iterable[PermissionStatement]) -> list[dict[str, Any]]:
    """Statements in a response: in capitals, which callers may send back as they are."""
    return [
        {
            "effect": each.effect.name,
            "action": [action.name for action in each.action],
            "resource": list(each.resource),
        }
        for each in statements
    ]


class PermissionPolicy(Entity):
    """Named permissions that you grant to users."""

    name: Annotated[Text, Field(min_length=1, max_length=100)]
    permission_policy: Annotated[
        tuple[PermissionStatement, ...], Field(min_length=1, max_length=1000)
    ]


class ServiceUser(Entity):
    """A program that uses meterlake with access keys of its own."""

    name: Name


class ResourceGroup(Entity):
    """Entities of one type under one name, so that one policy can name them together."""

    type: Annotated[Text, Field(min_length=1, max_length=80, pattern=r"^[a-z][a-z0-9]*$")]
    name: Annotated[Text, Field(min_length=1, max_length=100)]


class Invitation(Entity):
    """Asks a person by e-mail to become a user of the organization."""

    first_name: Annotated[Text, Field(min_length=1, max_length=100)]
    last_name: Annotated[Text, Field(min_length=1, max_length=100)]
    email: Email
    m3ter_user: Annotated[Flag | None, Field(alias="m3terUser")] = None
    contact_number: Annotated[Text, Field(max_length=50)] | None = None
    permission_policy_ids: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    dt_end_access: Instant | None = None
    dt_expiry: Instant | None = None


class TargetType(StrEnum):
    """Whether a member of a group is an item or another group."""

    ITEM = "item"
    GROUP = "group"


class PrincipalChoice(Value):
    """Whom a policy is granted to, or taken away from."""

    principal_id: Annotated[Text, Field(min_length=1, max_length=100)]


class GroupTarget(Value):
    """What is put into a group, or taken out."""

    target_id: Annotated[Text, Field(min_length=1, max_length=100)]
    target_type: Annotated[TargetType, BeforeValidator(_in_lower_case)]


class UserChange(Value):
    """What an organization says about its user."""

    permission_policy: Annotated[tuple[PermissionStatement, ...], Field(max_length=1000)] = ()
    dt_end_access: Instant | None = None


class KeyStatus(StrEnum):
    """Whether an access key is in use."""

    ACTIVE = "ACTIVE"
    INACTIVE = "INACTIVE"


class KeyChange(Value):
    """What can be changed of an access key."""

    status: KeyStatus


class SupportAccess(Entity):
    """The support's access to the organization: its end, and the permitted actions."""

    dt_end_support_users_access: Instant
    support_users_permission_policy: Annotated[
        tuple[PermissionStatement, ...], Field(max_length=1000)
    ] = ()
