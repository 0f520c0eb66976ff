"""Access keys and granted policies; secrets are known only as their SHA-256."""

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from meterlake.model.configuration.access import (
    KeyStatus,
    PermissionPolicy,
    PrincipalType,
    ServiceUser,
)
from meterlake.model.errors import NotFound, StillReferenced
from meterlake.stores.state.access import people
from meterlake.stores.state.access.groups import group
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import ACCESS_KEY, ORGANIZATION, POLICY_GRANT
from meterlake.stores.state.core.transaction import Transaction

SUPPORT: Final = "supportusers"
# The type of resource groups that hold users.
USER_GROUP: Final = "user"


_KEY: Final = select(
    ACCESS_KEY.c.id,
    ACCESS_KEY.c.org,
    ACCESS_KEY.c.service_user_id,
    ACCESS_KEY.c.secret_sha256,
    ACCESS_KEY.c.status,
    ACCESS_KEY.c.created,
).where(ACCESS_KEY.c.id == bindparam("key"))


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key that a service user signs in with."""

    id: str
    org_id: str
    service_user_id: str
    secret_sha256: str = field(repr=False)
    status: KeyStatus
    created: datetime

    def opens_with(self, secret: str) -> bool:
        """Whether the secret belongs to the key and the key is in use."""
        same = hmac.compare_digest(self.secret_sha256, digest(secret))
        return same and self.status == KeyStatus.ACTIVE


@dataclass(frozen=True, slots=True)
class PolicyGrant:
    """A policy in the hands of a principal."""

    id: str
    policy_id: str
    principal_type: PrincipalType
    principal_id: str
    created: datetime
    created_by: str


def digest(secret: str) -> str:
    """What is stored of a secret. Secrets are 256 random bits: a slow hash would add nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def add_key(transaction: Transaction, service_user_id: str, secret: str) -> AccessKey:
    """Give a service user a key.

    Raises:
        NotFound: There is no such service user.
    """
    transaction.get(ServiceUser, service_user_id)
    row = {
        "id": transaction.new_id(),
        "org": transaction.org_id,
        "service_user_id": service_user_id,
        "secret_sha256": digest(secret),
        "status": KeyStatus.ACTIVE.value,
        "created": transaction.now,
    }
    transaction.connection.execute(insert(ACCESS_KEY), row)
    return key(transaction, str(row["id"]))


def key(reader: Reader, id: str, service_user_id: str | None = None) -> AccessKey:
    """One access key of an organization, or of one service user in it.

    Raises:
        NotFound: There is none.
    """
    query = select(ACCESS_KEY).where(ACCESS_KEY.c.org == reader.org_id, ACCESS_KEY.c.id == id)
    row = reader.connection.execute(query).first()
    if row is None or service_user_id not in {None, row.service_user_id}:
        raise NotFound("access key", id)
    return _key(row)


def key_of_home(state: State, id: str) -> AccessKey | None:
    """One access key of whatever organization, or None: how a program signs in."""
    row = state.first(_KEY, {"key": id})
    if row is None:
        return None
    id_, org_id, user_id, digest_, status, created = row
    instant = datetime.fromisoformat(created)
    return AccessKey(id_, org_id, user_id, digest_, KeyStatus(status), instant)


def keys(reader: Reader, service_user_id: str, page: Page) -> tuple[list[AccessKey], str | None]:
    """One page of a service user's keys, and the token of the next."""
    table = ACCESS_KEY.c
    query = select(ACCESS_KEY).where(
        table.org == reader.org_id, table.service_user_id == service_user_id
    )
    rows, token = read(reader.connection, query, table.created, table.id, page)
    return [_key(row) for row in rows], token


def set_key_status(transaction: Transaction, id: str, status: KeyStatus) -> None:
    """Put a key into use or out of use."""
    query = update(ACCESS_KEY).where(ACCESS_KEY.c.org == transaction.org_id, ACCESS_KEY.c.id == id)
    transaction.connection.execute(query.values(status=status.value))


def delete_key(transaction: Transaction, id: str) -> None:
    """Delete a key."""
    query = delete(ACCESS_KEY).where(ACCESS_KEY.c.org == transaction.org_id, ACCESS_KEY.c.id == id)
    transaction.connection.execute(query)


def delete_keys(transaction: Transaction, service_user_id: str) -> None:
    """Delete every key of a service user."""
    table = ACCESS_KEY.c
    query = delete(ACCESS_KEY).where(
        table.org == transaction.org_id, table.service_user_id == service_user_id
    )
    transaction.connection.execute(query)


def grant(
    transaction: Transaction,
    policy_id: str,
    principal_id: str,
    principal_type: PrincipalType = PrincipalType.SERVICEUSER,
) -> PolicyGrant:
    """Grant a policy to a principal; one that has it already keeps it.

    Raises:
        NotFound: There is no such policy or principal.
    """
    transaction.get(PermissionPolicy, policy_id)
    checks: dict[PrincipalType, Any] = {
        PrincipalType.USER: lambda: people.user(transaction, principal_id),
        PrincipalType.USERGROUP: lambda: group(transaction, USER_GROUP, principal_id),
        PrincipalType.SERVICEUSER: lambda: transaction.get(ServiceUser, principal_id),
        PrincipalType.SUPPORTUSERS: lambda: None,
    }
    checks[principal_type]()
    known = _grant(transaction, policy_id, principal_id, principal_type)
    if known is not None:
        return known
    row = {
        "id": transaction.new_id(),
        "org": transaction.org_id,
        "policy_id": policy_id,
        "principal_type": principal_type.value,
        "principal_id": principal_id,
        "created": transaction.now,
        "created_by": transaction.author,
    }
    transaction.connection.execute(insert(POLICY_GRANT), row)
    return PolicyGrant(
        str(row["id"]), policy_id, principal_type, principal_id, transaction.now, transaction.author
    )


def revoke(
    transaction: Transaction, policy_id: str, principal_id: str, principal_type: PrincipalType
) -> PolicyGrant:
    """Take a policy away from a principal.

    Raises:
        NotFound: There is no such policy, or the principal does not have it.
    """
    transaction.get(PermissionPolicy, policy_id)
    known = _grant(transaction, policy_id, principal_id, principal_type)
    if known is None:
        raise NotFound(f"permission policy of {principal_type.value}", principal_id)
    transaction.connection.execute(delete(POLICY_GRANT).where(POLICY_GRANT.c.id == known.id))
    return known


def revoke_all(transaction: Transaction, principal_id: str) -> None:
    """Take every policy away from a principal that is deleted."""
    table = POLICY_GRANT.c
    query = delete(POLICY_GRANT).where(
        table.org == transaction.org_id, table.principal_id == principal_id
    )
    transaction.connection.execute(query)


def refuse_granted(reader: Reader, policy_id: str) -> None:
    """Let nobody delete a policy that somebody has.

    Raises:
        StillReferenced: A principal has it.
    """
    table = POLICY_GRANT.c
    query = select(table.principal_type, table.principal_id).where(
        table.org == reader.org_id, table.policy_id == policy_id
    )
    row = reader.connection.execute(query.limit(1)).first()
    if row is not None:
        by = f"{row.principal_type} {row.principal_id!r}"
        raise StillReferenced(PermissionPolicy.__name__, policy_id, by)


def granted_policy_ids(reader: Reader, *principal_ids: str) -> list[str]:
    """The ids of the policies that principals have, all together."""
    table = POLICY_GRANT.c
    query = select(table.policy_id).where(
        table.org == reader.org_id, table.principal_id.in_(principal_ids)
    )
    return sorted(set(reader.connection.execute(query).scalars()))


def page_of_grants(
    reader: Reader, policy_id: str, page: Page
) -> tuple[list[PolicyGrant], str | None]:
    """One page of those who have a policy, and the token of the next page.

    Raises:
        NotFound: There is no such policy.
    """
    reader.get(PermissionPolicy, policy_id)
    table = POLICY_GRANT.c
    query = select(POLICY_GRANT).where(table.org == reader.org_id, table.policy_id == policy_id)
    rows, token = read(reader.connection, query, table.created, table.id, page)
    found = [
        PolicyGrant(
            *(row.id, row.policy_id, PrincipalType(row.principal_type)),
            *(row.principal_id, row.created, row.created_by),
        )
        for row in rows[: page.size]
    ]
    return found, token


def organization_name(connection: Connection, org_id: str) -> str | None:
    """The name of an organization, or None if there is none."""
    query = select(ORGANIZATION.c.name).where(ORGANIZATION.c.id == org_id)
    return connection.execute(query).scalar()


def _grant(
    reader: Reader, policy_id: str, principal_id: str, type: PrincipalType
) -> PolicyGrant | None:
    table = POLICY_GRANT.c
    query = select(POLICY_GRANT).where(
        table.org == reader.org_id,
        table.policy_id == policy_id,
        table.principal_id == principal_id,
        table.principal_type == type.value,
    )
    row = reader.connection.execute(query).first()
    if row is None:
        return None
    return PolicyGrant(row.id, row.policy_id, type, row.principal_id, row.created, row.created_by)


def _key(row: Row[Any]) -> AccessKey:
    return AccessKey(
        row.id,
        row.org,
        row.service_user_id,
        row.secret_sha256,
        KeyStatus(row.status),
        row.created,
    )
