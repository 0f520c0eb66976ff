"""Access keys and granted policies; secrets are known only as their SHA-256."""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select

from meterlake.model.access import PermissionPolicy, ServiceUser
from meterlake.model.errors import NotFound
from meterlake.stores.state.reader import Reader
from meterlake.stores.state.tables import ACCESS_KEY, POLICY_GRANT
from meterlake.stores.state.transaction import Transaction

ACTIVE = "ACTIVE"
SERVICE_USER = "SERVICEUSER"


@dataclass(frozen=True, slots=True)
class AccessKey:
    """A key that a service user signs in with."""

    id: str
    org_id: str
    service_user_id: str
    secret_sha256: str
    status: str
    created: datetime

    def opens_with(self, secret: str) -> bool:
        """Whether the secret belongs to the key and the key is in use."""
        return self.status == ACTIVE and hmac.compare_digest(self.secret_sha256, digest(secret))


def digest(secret: str) -> str:
    """What is stored of a secret. Secrets are 256 random bits: a slow hash would add nothing."""
    return hashlib.sha256(secret.encode()).hexdigest()


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
        "status": ACTIVE,
        "created": transaction.now,
    }
    transaction.connection.execute(insert(ACCESS_KEY), row)
    return key(transaction, str(row["id"]))


def key(reader: Reader, id: str) -> AccessKey:
    """One access key of an organization.

    Raises:
        NotFound: There is none.
    """
    query = select(ACCESS_KEY).where(ACCESS_KEY.c.org == reader.org_id, ACCESS_KEY.c.id == id)
    row = reader.connection.execute(query).first()
    if row is None:
        raise NotFound("access key", id)
    return AccessKey(
        row.id, row.org, row.service_user_id, row.secret_sha256, row.status, row.created
    )


def grant(transaction: Transaction, policy_id: str, service_user_id: str) -> None:
    """Grant a policy to a service user.

    Raises:
        NotFound: There is no such policy or service user.
    """
    transaction.get(PermissionPolicy, policy_id)
    transaction.get(ServiceUser, service_user_id)
    row = {
        "id": transaction.new_id(),
        "org": transaction.org_id,
        "policy_id": policy_id,
        "principal_type": SERVICE_USER,
        "principal_id": service_user_id,
        "created": transaction.now,
        "created_by": transaction.author,
    }
    transaction.connection.execute(insert(POLICY_GRANT), row)


def granted(reader: Reader, service_user_id: str) -> list[str]:
    """The ids of the policies that a service user has."""
    table = POLICY_GRANT.c
    query = select(table.policy_id).where(
        table.org == reader.org_id, table.principal_id == service_user_id
    )
    return sorted(reader.connection.execute(query).scalars())
