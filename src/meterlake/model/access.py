"""Who may do what: permission policies and the service users that they are granted to."""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from meterlake.model.entity import Entity, Value
from meterlake.model.fields import Name, Text

# The author of what meterlake itself makes; a policy of this author is a managed one.
SYSTEM: Final = "SYSTEM"


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


def _effect(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _action(value: Any) -> Any:
    # The contract's client sends the names in capitals, the documented wire form is the values.
    return PermissionAction.__members__.get(value, value) if isinstance(value, str) else value


class PermissionStatement(Value):
    """Allows or denies actions on resources such as `config:meter/*`."""

    effect: Annotated[PermissionEffect, BeforeValidator(_effect)]
    action: Annotated[
        tuple[Annotated[PermissionAction, BeforeValidator(_action)], ...], Field(max_length=100)
    ]
    resource: Annotated[
        tuple[Annotated[Text, Field(min_length=1, max_length=400)], ...],
        Field(min_length=1, max_length=1000),
    ]


class PermissionPolicy(Entity):
    """Named permissions that are granted to users."""

    name: Annotated[Text, Field(min_length=1, max_length=100)]
    permission_policy: Annotated[
        tuple[PermissionStatement, ...], Field(min_length=1, max_length=1000)
    ]


class ServiceUser(Entity):
    """A program that uses meterlake with access keys of its own."""

    name: Name
