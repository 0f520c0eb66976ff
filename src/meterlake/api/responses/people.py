"""Tokens, people and what they may do; and answers about the server itself, without a token."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel

from meterlake.model.configuration.access import (
    KeyStatus,
    PermissionStatement,
    PrincipalType,
    TargetType,
)
from meterlake.model.values.entity import Envelope, Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Number, Text


class BearerAccessTokenRequest(BaseModel):
    """Asks for an access token."""

    grant_type: Literal["client_credentials"]
    scope: str | None = None


class BearerAccessTokenResponse(BaseModel):
    """An access token and how many seconds it is good for."""

    access_token: str
    expires_in: int
    token_type: str | None = None
    scope: str | None = None


class UserResponse(Envelope):
    """A person."""

    first_name: Text | None = None
    last_name: Text | None = None
    contact_number: Text | None = None
    email: Text | None = None
    organizations: tuple[Text, ...] = ()
    first_accepted_terms_and_conditions: Instant | None = None
    last_accepted_terms_and_conditions: Instant | None = None
    support_user: Flag | None = None


class OrgUserResponse(UserResponse):
    """A person as a user of the organization."""

    permission_policy: tuple[PermissionStatement, ...] = ()
    dt_end_access: Instant | None = None


class OrganizationType(StrEnum):
    """What an organization is for."""

    PRODUCTION = "PRODUCTION"
    SANDBOX = "SANDBOX"


class OrganizationStatus(StrEnum):
    """Whether an organization is in use."""

    ACTIVE = "ACTIVE"
    ARCHIVED = "ARCHIVED"


class OrganizationResponse(Envelope):
    """The organization."""

    org_id: Id | None = None
    customer_id: Text | None = None
    organization_name: Text | None = None
    short_name: Text | None = None
    address_line1: Text | None = None
    address_line2: Text | None = None
    address_line3: Text | None = None
    address_line4: Text | None = None
    locality: Text | None = None
    region: Text | None = None
    post_code: Text | None = None
    country: Text | None = None
    tax_id: Text | None = None
    purchase_order_number: Text | None = None
    invoice_general_reference: Text | None = None
    billing_contact_user_id1: Text | None = None
    billing_contact_user_id2: Text | None = None
    billing_contact_user_id3: Text | None = None
    type: OrganizationType | None = None
    status: OrganizationStatus | None = None


class ServiceUserShown(Envelope):
    """The program that asks."""

    name: Text | None = None


class MeResponse(Value):
    """Who asks, and of which organization."""

    user: UserResponse | None = None
    service_user: ServiceUserShown | None = None
    organization: OrganizationResponse | None = None


class AllowedOperationsResponse(Value):
    """The ids of the operations that whoever asks may call.

    Attributes:
        data: The ids.
        author: Who asks, as `createdBy` and the like name them.
        timezone: The time zone of the organization, in which its days and months are.
    """

    data: tuple[Text, ...]
    author: Text
    timezone: Text


class AccessKeyResponse(Value):
    """A key of a service user; the secret only in the answer that creates it."""

    id: Id
    service_user_id: Id
    status: KeyStatus
    dt_created: Instant
    api_secret: Text | None = None


class PermissionRequest(Value):
    """Nothing but a version."""

    version: Integer | None = None


class PrincipalPermissionResponse(Envelope):
    """Who has a policy."""

    permission_policy_id: Id | None = None
    principal_id: Text | None = None
    principal_type: PrincipalType | None = None


class AuditAction(StrEnum):
    """What somebody did."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    APPROVED = "approved"
    LOCKED = "locked"
    UNAPPROVED = "unapproved"
    RECALCULATED = "recalculated"
    CREDITED = "credited"
    CHARGED = "charged"
    LINE_CHANGED = "lineChanged"
    LINE_REMOVED = "lineRemoved"
    TOPPED_UP = "toppedUp"
    PAID_BACK = "paidBack"
    EXPIRED = "expired"
    EXPIRY_REVERSED = "expiryReversed"
    REOPENED = "reopened"
    GRANTED = "granted"
    BEGUN = "begun"


class AuditEntryResponse(Value):
    """One thing that somebody did: who, when, what, and to what."""

    id: Text
    at: Instant
    by: Text
    by_name: Text | None = None
    kind: Text
    action: AuditAction
    entity_id: Text
    name: Text | None = None
    version: Integer | None = None
    period: Text | None = None
    amount: Number | None = None
    currency: Text | None = None
    reason: Text | None = None


class UserSession(Value):
    """A sign-in that lives."""

    id: Id
    dt_created: Instant
    dt_expiry: Instant


class UserSessionsResponse(Value):
    """The sign-ins of a user."""

    data: tuple[UserSession, ...]


class EndedSessionsResponse(Value):
    """How many sign-ins of a user were ended."""

    id: Id
    ended: Integer


class PasswordLinkResponse(Value):
    """A link with which a user chooses a new password."""

    id: Id
    dt_expiry: Instant
    link: Text | None = None


class ResourceGroupItemResponse(Envelope):
    """One member of a resource group."""

    target_id: Text | None = None
    target_type: TargetType | None = None


class ServerStatusResponse(Value):
    """How the server is."""

    status: Text


class KeySetResponse(Value):
    """The public keys that tokens are checked with, as RFC 7517 writes them."""

    keys: tuple[dict[str, Any], ...]
