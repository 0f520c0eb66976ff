"""What a principal may do now, and the keys and policies that decide it."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from meterlake.model.configuration.access import (
    SYSTEM,
    KeyStatus,
    PermissionPolicy,
    PermissionStatement,
    Principal,
    PrincipalType,
    ServiceUser,
    SupportAccess,
    statement_documents,
)
from meterlake.model.configuration.permissions import Permissions
from meterlake.model.errors import Conflict, Forbidden, Invalid, NotFound, Unauthorized
from meterlake.model.values.entity import Record
from meterlake.model.values.ids import is_id
from meterlake.stores.state import Reader, State, Transaction
from meterlake.stores.state.access import access, groups, people, sessions
from meterlake.stores.state.access.access import SUPPORT, AccessKey, PolicyGrant
from meterlake.stores.state.access.sessions import Session
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.reader import DamagedRow

SECRET_BYTES: Final = 32
# So long a process goes on by what it knew: what is revoked stops working within this time.
FRESH_S: Final = 3.0
_CACHED: Final = 10_000
# So many users are read at once.
_PEOPLE: Final = 200

_REVOKED: Final = "the access token was revoked; ask for a new one"


# --- What a principal may do -------------------------------------------------------------------


def sign_in_key(state: State, key_id: str, secret: str) -> Principal:
    """The service user of an access key.

    Raises:
        Unauthorized: There is no such key, it is out of use, or the secret is another.
    """
    key = access.key_of_home(state, key_id) if is_id(key_id) else None
    if key is None or not key.opens_with(secret):
        raise Unauthorized("the access key or its secret is wrong; check both")
    return Principal(PrincipalType.SERVICEUSER, key.service_user_id, key.org_id, key.id)


def permissions_of(state: State, principal: Principal) -> Permissions:
    """What a principal may do: its own policies, and those of its groups and of theirs.

    Raises:
        Unauthorized: Its key, session, user or access is gone.
    """
    with state.reading(principal.org_id) as reader:
        now = state.now()
        if principal.type is PrincipalType.SERVICEUSER:
            _require_key(reader, principal)
            own: tuple[PermissionStatement, ...] = ()
            holders = [principal.id]
        else:
            own, holders = _of_person(reader, principal, now)
        return _permissions(reader, principal.id, own, holders)


def permissions_of_author(reader: Reader, author: str) -> Permissions | None:
    """What who writes under a name may do, whatever way they came in; None if it is no user's name.

    Raises:
        NotFound: The organization has no such user.
    """
    try:
        principal = Principal.of_author(author, reader.org_id, "")
    except ValueError:
        return None
    if principal.type is PrincipalType.SERVICEUSER:
        reader.get(ServiceUser, principal.id)
        own: tuple[PermissionStatement, ...] = ()
    else:
        own = people.user(reader, principal.id).statements
    return _permissions(reader, principal.id, own, [principal.id])


def _permissions(
    reader: Reader, id: str, own: Sequence[PermissionStatement], holders: Sequence[str]
) -> Permissions:
    """What is allowed to somebody by statements of their own, and by policies of who has some."""
    held = (*holders, *groups.groups_of(reader, id))
    policies = (
        reader.get(PermissionPolicy, id_) for id_ in access.granted_policy_ids(reader, *held)
    )
    granted = (each for record in policies for each in record.entity.permission_policy)
    return Permissions((*own, *granted))


def _require_key(reader: Reader, principal: Principal) -> None:
    try:
        key = access.key(reader, principal.credential, principal.id)
        reader.get(ServiceUser, principal.id)
    except NotFound:
        raise Unauthorized(_REVOKED) from None
    if key.status != KeyStatus.ACTIVE:
        raise Unauthorized(_REVOKED)


def _of_person(
    reader: Reader, principal: Principal, now: datetime
) -> tuple[tuple[PermissionStatement, ...], list[str]]:
    session = sessions.session(reader.connection, principal.credential, now)
    if session is None or session.person_id != principal.id:
        raise Unauthorized(_REVOKED)
    try:
        user = people.user(reader, principal.id)
    except NotFound:
        return _of_support(reader, principal, now)
    if not user.has_access(now):
        raise Unauthorized(_REVOKED)
    if user.is_signed_out(session.created):
        raise Unauthorized(_REVOKED)
    return user.statements, [principal.id]


def _of_support(
    reader: Reader, principal: Principal, now: datetime
) -> tuple[tuple[PermissionStatement, ...], list[str]]:
    person = people.person(reader.connection, principal.id)
    opened = support_record(reader)
    if person is None or not person.support_user or opened is None:
        raise Unauthorized(_REVOKED)
    if opened.entity.dt_end_support_users_access <= now:
        raise Unauthorized(_REVOKED)
    return opened.entity.support_users_permission_policy, [SUPPORT]


def support_record(reader: Reader) -> Record[SupportAccess] | None:
    """What an organization says about its support access, if it ever did."""
    found = reader.all(SupportAccess)
    return found[0] if found else None


def organizations_of(state: State, person_id: str) -> list[tuple[str, str]]:
    """Id and name of the organizations that a person may enter now, the oldest access first."""
    now = state.now()
    with state.reading_home() as connection:
        person = people.person(connection, person_id)
        known = people.memberships(connection, person_id)
    found = [org for org, end in known if end is None or now < end]
    if person is not None and person.support_user:
        found += _check_not_used(state, {org for org, _ in known}, now)
    names = {org.id: org.name for org in state.organizations()}
    return [(org, names[org]) for org in found]


def reaches(state: State, session: Session, org_id: str) -> bool:
    """Whether a sign-in leads into an organization: it has not ended the person's sign-ins since."""
    with state.reading(org_id) as reader:
        try:
            user = people.user(reader, session.person_id)
        except NotFound:
            return True  # Who helps is no user.
    return not user.is_signed_out(session.created)


def _check_not_used(state: State, besides: set[str], now: datetime) -> list[str]:
    found = []
    for organization in state.organizations():
        try:
            with state.reading(organization.id) as reader:
                opened = support_record(reader)
        except DamagedRow:
            continue  # Nobody enters by what cannot be read; all others are as open as before.
        until = opened.entity.dt_end_support_users_access if opened else now
        if until > now and organization.id not in besides:
            found.append(organization.id)
    return found


class KnownPermissions:
    """The permissions of the principals that one process serves, at most `FRESH_S` old.

    Args:
        state: Where they are.
        monotonic: Seconds that never run backwards.
    """

    def __init__(self, state: State, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._state = state
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: OrderedDict[Principal, tuple[float, Permissions]] = OrderedDict()

    def get_cached(self, principal: Principal) -> Permissions | None:
        """What is known and fresh, without waiting for a store; None if it has to be looked up."""
        found = self._known.get(principal)
        fresh = found is not None and self._monotonic() - found[0] < FRESH_S
        return found[1] if found is not None and fresh else None

    def of(self, principal: Principal) -> Permissions:
        """What a principal may do.

        Raises:
            Unauthorized: Its key, session, user or access is gone.
        """
        known = self.get_cached(principal)
        if known is not None:
            return known
        since = self._monotonic()
        found = permissions_of(self._state, principal)
        with self._lock:
            self._known[principal] = (since, found)
            self._known.move_to_end(principal)
            while len(self._known) > _CACHED:
                self._known.popitem(last=False)
        return found

    def require(
        self, principal: Principal, action: str, resource: str, id: str | None = None
    ) -> None:
        """Let a principal do something to a resource.

        Raises:
            Unauthorized: Its key, session, user or access is gone.
            Forbidden: No policy allows it, or one denies it.
        """
        permissions = self.of(principal)
        found: frozenset[str] = frozenset()
        if id is not None and permissions.asks_for_groups(action, resource):
            with self._state.reading(principal.org_id) as reader:
                # An id in capitals is the same id: else it would slip through a denial.
                found = groups.groups_of(reader, id.lower())
        if not permissions.allows(action, resource, id, found):
            raise Forbidden(
                f"no permission for {action} on {resource}; ask an administrator for it"
            )


def visible(
    state: State,
    org_id: str,
    permissions: Permissions,
    to: tuple[str, str],
    rows: list[Any],
    item: str = "id",
) -> list[Any]:
    """The rows of a list that a principal may see one by one.

    Args:
        state: Where groups are.
        org_id: The organization.
        permissions: What the principal may do.
        to: The action and the type of resource.
        rows: Documents with an `id`.
        item: The member that names what a row is a part of, such as the bill of a line.
    """
    asks = permissions.asks_for_groups(*to)
    with state.reading(org_id) as reader:
        return [
            row
            for row in rows
            for id_ in [row.get(item) or row.get("id")]
            if permissions.allows(*to, id_, groups.groups_of(reader, id_) if asks else ())
        ]


def list_grants(
    state: State, org_id: str, policy_id: str, page: Page
) -> tuple[list[PolicyGrant], str | None]:
    """One page of those who have a policy.

    Raises:
        NotFound: There is no such policy.
    """
    with state.reading(org_id) as reader:
        return access.page_of_grants(reader, policy_id, page)


# --- Access keys -------------------------------------------------------------------------------


def create_key(
    state: State, org_id: str, author: str, service_user_id: str
) -> tuple[AccessKey, str]:
    """Give a service user a key; its secret is known here and nowhere else."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    with state.transaction(org_id, author) as transaction:
        return access.add_key(transaction, service_user_id, secret), secret


def get_key(state: State, org_id: str, service_user_id: str, id: str) -> AccessKey:
    """One key of a service user."""
    with state.reading(org_id) as reader:
        return access.key(reader, id, service_user_id)


def list_keys(
    state: State, org_id: str, service_user_id: str, page: Page
) -> tuple[list[AccessKey], str | None]:
    """One page of the keys of a service user."""
    with state.reading(org_id) as reader:
        reader.get(ServiceUser, service_user_id)
        return access.keys(reader, service_user_id, page)


def set_key_status(
    state: State, org_id: str, service_user_id: str, id: str, status: KeyStatus
) -> AccessKey:
    """Put a key into use or out of use.

    Raises:
        NotFound: The service user has no such key.
    """
    with state.transaction(org_id, SYSTEM) as transaction:
        access.key(transaction, id, service_user_id)
        access.set_key_status(transaction, id, status)
        return access.key(transaction, id)


def delete_key(state: State, org_id: str, service_user_id: str, id: str) -> AccessKey:
    """Delete a key; what it signed in stops working."""
    with state.transaction(org_id, SYSTEM) as transaction:
        found = access.key(transaction, id, service_user_id)
        access.delete_key(transaction, id)
        return found


# --- Service users and policies ----------------------------------------------------------------


def delete_service_user(state: State, org_id: str, author: str, id: str) -> Record[ServiceUser]:
    """Delete a service user with its keys and what was granted to it."""
    with state.transaction(org_id, author) as transaction, keeping_administrator(transaction):
        gone = transaction.delete(ServiceUser, id)
        access.delete_keys(transaction, id)
        access.revoke_all(transaction, id)
        groups.forget(transaction, id)
        return gone


def delete_policy(state: State, org_id: str, author: str, id: str) -> Record[PermissionPolicy]:
    """Delete a policy that nobody has.

    Raises:
        StillReferenced: Somebody has it.
        Forbidden: It is a managed one.
    """
    with state.transaction(org_id, author) as transaction:
        refuse_policy_in_use(transaction, id)
        return transaction.delete(PermissionPolicy, id)


def refuse_policy_in_use(reader: Reader, id: str) -> None:
    """Let nobody delete a managed policy, or one that somebody has.

    Raises:
        Forbidden: It is a managed one.
        StillReferenced: Somebody has it.
    """
    if reader.get(PermissionPolicy, id).created_by == SYSTEM:
        raise Forbidden(
            "a managed policy can be neither changed nor deleted; make a policy of your own"
        )
    access.refuse_granted(reader, id)


def grant_policy(
    state: State,
    org_id: str,
    author: str,
    policy_id: str,
    principal: tuple[PrincipalType, str],
) -> PolicyGrant:
    """Grant a policy to a principal."""
    type_, id_ = principal
    with state.transaction(org_id, author) as transaction:
        return access.grant(transaction, policy_id, id_, type_)


def revoke_policy(
    state: State,
    org_id: str,
    author: str,
    policy_id: str,
    principal: tuple[PrincipalType, str],
) -> PolicyGrant:
    """Take a policy away from a principal.

    Raises:
        NotFound: There is no such policy, or the principal does not have it.
        Conflict: Nobody would administer the organization any more.
    """
    type_, id_ = principal
    with state.transaction(org_id, author) as transaction, keeping_administrator(transaction):
        return access.revoke(transaction, policy_id, id_, type_)


@contextmanager
def keeping_administrator(transaction: Transaction) -> Iterator[None]:
    """Let no change of who may do what take away the last person who may undo it.

    Where no person may, the same holds for the last program.

    Raises:
        Conflict: A person, or where none does a program, may give policies to people, and after the
            change nobody may.
    """
    before = _administrators(transaction)
    yield
    if before is not None and _administrators(transaction) not in {before, PrincipalType.USER}:
        raise Conflict(
            "nobody else who has access may give policies to people;"
            " give the Administrator policy to another user first"
        )


def administers(permissions: Permissions) -> bool:
    """Whether somebody may give policies to people, and so do whatever they want."""
    return permissions.unrestricted("config:update", "permissionpolicy")


def _has_administrator(transaction: Transaction) -> bool:
    token = None
    while True:
        some, token = people.users(transaction, Page(_PEOPLE, token))
        for user in some:
            held = _permissions(transaction, user.person.id, user.statements, [user.person.id])
            if user.has_access(transaction.now) and administers(held):
                return True
        if token is None:
            return False


def _administrators(transaction: Transaction) -> PrincipalType | None:
    """Who may give policies to people: a person, or else a program, or nobody."""
    if _has_administrator(transaction):
        return PrincipalType.USER
    programs = transaction.all(ServiceUser)
    held = (_permissions(transaction, each.id, (), [each.id]) for each in programs)
    return PrincipalType.SERVICEUSER if any(map(administers, held)) else None


# --- Support -----------------------------------------------------------------------------------


def support_access(state: State, org_id: str) -> dict[str, Any]:
    """What an organization says about its support access; empty if it never did."""
    with state.reading(org_id) as reader:
        found = support_record(reader)
        return {} if found is None else _support_document(found)


def set_support_access(
    state: State, org_id: str, author: str, entity: SupportAccess, version: int | None
) -> dict[str, Any]:
    """Open or close an organization to the support.

    Raises:
        StaleVersion: Someone changed it since the caller read it.
        Invalid: It was set before, and no version was given.
    """
    with state.transaction(org_id, author) as transaction:
        found = support_record(transaction)
        if found is None:
            return _support_document(transaction.create(entity))
        if version is None:
            raise Invalid("version", None, "give the version that is replaced")
        return _support_document(transaction.update(found.id, version, entity))


def _support_document(record: Record[SupportAccess]) -> dict[str, Any]:
    policy = statement_documents(record.entity.support_users_permission_policy)
    return record.to_wire() | {"supportUsersPermissionPolicy": policy}
