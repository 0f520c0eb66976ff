"""People in organizations: users, invitations, and the links with which they choose a password."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic.alias_generators import to_camel
from sqlalchemy import Connection

from meterlake.model.configuration.access import (
    SYSTEM,
    Invitation,
    PermissionPolicy,
    PermissionStatement,
    Principal,
    PrincipalType,
    ResourceGroup,
    ServiceUser,
)
from meterlake.model.configuration.access import statement_documents as shown_statements
from meterlake.model.configuration.permissions import ADMINISTRATOR
from meterlake.model.errors import Conflict, Invalid, NotFound, Unauthorized
from meterlake.model.resources import resource_of
from meterlake.model.values.entity import Record
from meterlake.model.values.problems import read
from meterlake.pipeline.access.access import (
    administers,
    keeping_administrator,
    permissions_of_author,
)
from meterlake.pipeline.access.login import hash_password
from meterlake.stores.state import State, Transaction
from meterlake.stores.state.access import access, groups, people, sessions
from meterlake.stores.state.access.access import digest
from meterlake.stores.state.access.people import Person, User
from meterlake.stores.state.access.sessions import OneTimeToken, Purpose
from meterlake.stores.state.core.listing import list_entities
from meterlake.stores.state.core.pages import Page

Document = dict[str, Any]

INVITATION: Final = timedelta(days=30)
NEW_PASSWORD: Final = timedelta(hours=24)
_TOKEN_BYTES: Final = 32
# Ends of lines, other control characters, and what turns the direction of text.
_NOT_IN_A_LINE: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069]")
# In a letter's head these make several addresses, or another one, of one.
_NOT_IN_AN_ADDRESS: Final = re.compile(r'[\x00-\x1f\x7f-\x9f",:;<>()\[\]\\]')
_NAMES: Final = ("firstName", "lastName", "email")
_DEAD: Final = "the link is not valid any more; ask for a new one"


@dataclass(frozen=True, slots=True)
class InvitationEmail:
    """A link that has to reach a person; the token in it is known here and nowhere else."""

    email: str
    name: str
    purpose: Purpose
    token: str = field(repr=False)


# --- Users -------------------------------------------------------------------------------------


def user_document(user: User) -> Document:
    """A user as the wire shows it."""
    return {
        "id": user.person.id,
        "version": user.version,
        **_person_fields(user.person),
        "organizations": [user.org_id],
        "permissionPolicy": shown_statements(user.statements),
        **({} if user.end_access is None else {"dtEndAccess": user.end_access}),
        "createdBy": user.created_by,
        "dtCreated": user.created,
        "lastModifiedBy": user.modified_by,
        "dtLastModified": user.modified,
    }


def get_user(state: State, org_id: str, id: str) -> Document:
    """One user of an organization."""
    with state.reading(org_id) as reader:
        return user_document(people.user(reader, id))


def list_users(state: State, org_id: str, page: Page, ids: Sequence[str]) -> Document:
    """One page of the users of an organization."""
    with state.reading(org_id) as reader:
        found, token = people.users(reader, page, ids)
    return _page([user_document(each) for each in found], token)


def update_user(
    state: State,
    principal: Principal,
    id: str,
    version: int,
    change: tuple[tuple[PermissionStatement, ...], datetime | None],
) -> Document:
    """Replace the statements of a user and the end of the access.

    Raises:
        NotFound: There is no such user.
        StaleVersion: Someone changed it since the caller read it.
        Conflict: Nobody would administer the organization any more.
    """
    statements, end_access = change
    with (
        state.transaction(principal.org_id, principal.author) as transaction,
        keeping_administrator(transaction),
    ):
        changed = people.change_user(transaction, id, version, statements, end_access)
        return user_document(changed)


def restore_access(state: State, org_id: str, author: str, id: str) -> None:
    """Let a user whose access has ended enter the organization again.

    Raises:
        NotFound: There is no such user.
    """
    with state.transaction(org_id, author) as transaction:
        user = people.user(transaction, id)
        people.change_user(transaction, id, user.version, user.statements, None)


def me(state: State, principal: Principal) -> Document:
    """Who asks, and for which organization."""
    with state.reading(principal.org_id) as reader:
        name = access.organization_name(reader.connection, principal.org_id)
        shown: Document = {
            "organization": {
                "id": principal.org_id,
                "orgId": principal.org_id,
                "organizationName": name,
                "type": "PRODUCTION",
                "status": "ACTIVE",
            }
        }
        if principal.type is PrincipalType.SERVICEUSER:
            return shown | {"serviceUser": reader.get(ServiceUser, principal.id).to_wire()}
        person = people.person(reader.connection, principal.id)
        assert person is not None
        orgs = [org for org, _ in people.memberships(reader.connection, person.id)]
        own = {"id": person.id, **_person_fields(person), "organizations": orgs}
        return shown | {"user": own | {"dtCreated": person.created}}


def user_permissions(state: State, org_id: str, id: str) -> list[Record[PermissionPolicy]]:
    """The policies that were granted to a user or to a group of users that holds the user."""
    with state.reading(org_id) as reader:
        people.user(reader, id)
        found = access.granted_policy_ids(reader, id, *groups.groups_of(reader, id))
        return _newest_first([reader.get(PermissionPolicy, each) for each in found])


def user_groups(
    state: State, org_id: str, id: str, *, inherited: bool
) -> list[Record[ResourceGroup]]:
    """The groups that hold a user; with `inherited`, also those that hold these."""
    with state.reading(org_id) as reader:
        people.user(reader, id)
        one = frozenset({id})
        found = groups.groups_of(reader, id) if inherited else groups.parents(reader, one)
        return _newest_first([reader.get(ResourceGroup, each) for each in found])


def _newest_first(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda record: (record.created, record.id), reverse=True)


def _person_fields(person: Person) -> Document:
    shown = {
        "firstName": person.first_name,
        "lastName": person.last_name,
        "contactNumber": person.contact_number,
        "email": person.email,
        "firstAcceptedTermsAndConditions": person.first_accepted_terms,
        "lastAcceptedTermsAndConditions": person.last_accepted_terms,
        "supportUser": person.support_user,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _page(data: list[Document], token: str | None) -> Document:
    return {"data": data, "nextToken": token} if token else {"data": data}


def make_support_user(state: State, email: str, *, support_user: bool) -> None:
    """Let a person enter all organizations that open themselves to the support, or no more.

    Whoever runs the home decides that, not an organization: no operation of the API does.

    Raises:
        NotFound: There is no such person.
    """
    with state.writing_home() as connection:
        person = people.person_by_email(connection, email)
        if person is None:
            raise NotFound("person", email)
        people.change_person(connection, person.id, support_user=support_user)


# --- Invitations -------------------------------------------------------------------------------


def invite(
    state: State, org_id: str, author: str, invitation: Invitation
) -> tuple[Document, InvitationEmail]:
    """Invite a person; the letter has to be delivered.

    Raises:
        Invalid: A policy does not exist, the expiry is not in the future, or a name or the address
            would change what the letter says or to whom it goes.
        Conflict: The person is a user already.
    """
    _check_letter(invitation)
    with state.transaction(org_id, author) as transaction:
        expiry = invitation.dt_expiry or transaction.now + INVITATION
        if expiry <= transaction.now:
            raise Invalid("dtExpiry", expiry.isoformat(), "it must be an instant in the future")
        _refuse_user(transaction, invitation.email)
        record = transaction.create(invitation.model_copy(update={"dt_expiry": expiry}))
        token = _link(transaction, Purpose.INVITATION, record.id, expiry)
        shown = _invitation_document(record, accepted=False)
    name = f"{invitation.first_name} {invitation.last_name}"
    return shown, InvitationEmail(invitation.email, name, Purpose.INVITATION, token)


def _check_letter(invitation: Invitation) -> None:
    # Here and not in the model: invitations that are stored already stay readable.
    for name in ("first_name", "last_name", "contact_number"):
        value = getattr(invitation, name)
        if value is not None and _NOT_IN_A_LINE.search(value):
            raise Invalid(
                to_camel(name), value, "it must be text of one line without control characters"
            )
    if _NOT_IN_AN_ADDRESS.search(invitation.email):
        raise Invalid(
            "email", invitation.email, "it must be one e-mail address without quotes or brackets"
        )


def get_invitation(state: State, org_id: str, id: str) -> Document:
    """One invitation."""
    with state.reading(org_id) as reader:
        record = reader.get(Invitation, id)
        done = sessions.accepted_invitations(reader.connection, [id])
        return _invitation_document(record, accepted=id in done)


def list_invitations(state: State, org_id: str, page: Page) -> Document:
    """One page of an organization's invitations."""
    with state.reading(org_id) as reader:
        records, token = list_entities(reader, resource_of(Invitation), [], page)
        done = sessions.accepted_invitations(reader.connection, [record.id for record in records])
    data = [_invitation_document(record, accepted=record.id in done) for record in records]
    return _page(data, token)


def _invitation_document(record: Record[Invitation], *, accepted: bool) -> Document:
    return {
        **record.to_wire(),
        "invitingPrincipalId": record.created_by.rpartition("_")[2],
        "accepted": accepted,
    }


def _refuse_user(transaction: Transaction, email: str) -> None:
    person = people.person_by_email(transaction.connection, email)
    if person is None:
        return
    if transaction.org_id in {
        org for org, _ in people.memberships(transaction.connection, person.id)
    }:
        raise Conflict(
            f"{email} is a user of the organization already; no invitation is needed: give the user a policy instead, by `POST …/permissionpolicies/{{id}}/addtouser` or `meterlake users grant`"
        )


# --- Links -------------------------------------------------------------------------------------


def renew_password(state: State, org_id: str, author: str, id: str) -> InvitationEmail:
    """Let a user choose a new password by a link; the letter has to be delivered."""
    with state.transaction(org_id, author) as transaction:
        person = people.user(transaction, id).person
        until = transaction.now + NEW_PASSWORD
        token = _link(transaction, Purpose.PASSWORD, id, until)
    return InvitationEmail(person.email, person.first_name, Purpose.PASSWORD, token)


def _link(transaction: Transaction, purpose: Purpose, subject: str, until: datetime) -> str:
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    made = OneTimeToken(
        *(digest(token), purpose, transaction.org_id, subject, until),
        created=transaction.now,
        created_by=transaction.author,
    )
    sessions.add_one_time_token(transaction.connection, made)
    return token


def may_see_link(state: State, org_id: str, author: str, id: str) -> bool:
    """Whether who makes a link to a new password may see it, and so become the user.

    Nobody comes into another organization by it, or to more than they may give themselves.

    Raises:
        NotFound: There is no such user.
    """
    with state.reading(org_id) as reader:
        theirs = permissions_of_author(
            reader, f"{PrincipalType.USER}_{people.user(reader, id).person.id}"
        )
        own = permissions_of_author(reader, author)
        orgs = {org for org, _ in people.memberships(reader.connection, id)}
    assert theirs is not None
    return orgs == {org_id} and (own is None or administers(own) or not administers(theirs))


def purpose_of(state: State, token: str) -> Purpose:
    """What a link is for.

    Raises:
        Unauthorized: The link is unknown, over or used.
    """
    with state.reading_home() as connection:
        found = _alive(connection, token, state.now())
    if found.purpose is Purpose.FIRST_PERSON:
        with state.reading(found.org) as reader:
            if people.has_users(reader):
                raise Unauthorized(_DEAD)
    return found.purpose


def needs_password(state: State, token: str) -> bool:
    """Whether who follows a link has to choose a password: all but those who have one already.

    Raises:
        Unauthorized: The link is unknown, over or used.
    """
    with state.reading_home() as connection:
        found = _alive(connection, token, state.now())
    if found.purpose is Purpose.SIGN_IN:
        return False
    if found.purpose in {Purpose.PASSWORD, Purpose.FIRST_PERSON}:
        return True
    with state.reading(found.org) as reader:
        invited = reader.get(Invitation, found.subject_id).entity
        person = people.person_by_email(reader.connection, invited.email)
    return person is None or person.password_hash is None


def accept_invitation(state: State, token: str, password: str | None) -> str:
    """Become a user of the organization that invites; the id of the person.

    Args:
        state: Where the invitation is.
        token: What the link held.
        password: The new password of a person that has none yet; another's is never changed.

    Raises:
        Unauthorized: The link is unknown, over or used.
        Invalid: The password is too short or too long, or missing.
    """
    found = _use_token(state, token, Purpose.INVITATION)
    secret = hash_password(password or "") if needs_password(state, token) else None
    with state.reading(found.org) as reader:
        invitation = reader.get(Invitation, found.subject_id)
    with state.transaction(found.org, invitation.created_by) as transaction:
        _alive(transaction.connection, token, transaction.now, lock=True)
        person_id = _person_of(transaction, invitation.entity, secret)
        _refuse_user(transaction, invitation.entity.email)
        # Who follows the link joins by that: what follows from it is that person's act.
        transaction.author = f"USER_{person_id}"
        people.add_user(transaction, person_id, invitation.entity.dt_end_access)
        for policy_id in invitation.entity.permission_policy_ids:
            access.grant(transaction, policy_id, person_id, PrincipalType.USER)
        sessions.use_one_time_token(transaction.connection, digest(token), transaction.now)
        return person_id


def choose_password(state: State, token: str, password: str) -> str:
    """Give a person the password that they chose, and end their sessions; the id of the person.

    Raises:
        Unauthorized: The link is unknown, over or used.
        Invalid: The password is too short or too long.
    """
    _use_token(state, token, Purpose.PASSWORD)
    secret = hash_password(password)
    with state.writing_home() as connection:
        found = _alive(connection, token, state.now(), lock=True)
        people.change_person(connection, found.subject_id, password_hash=secret)
        sessions.end_sessions(connection, found.subject_id)
        sessions.use_one_time_token(connection, digest(token), state.now())
        return found.subject_id


def follow(
    state: State, token: str, password: str | None, names: Mapping[str, str] | None = None
) -> str:
    """Do what a link is for; the id of the person.

    Args:
        state: Where the link is.
        token: What the link held.
        password: What the person chose.
        names: For the first person of an organization: `firstName`, `lastName` and `email`.

    Raises:
        Unauthorized: The link is unknown, over or used.
        Invalid: The password is too short or too long, or a name is missing.
        Conflict: The first person has this e-mail address in another organization of the home.
    """
    match purpose_of(state, token):
        case Purpose.INVITATION:
            return accept_invitation(state, token, password)
        case Purpose.PASSWORD:
            return choose_password(state, token, password or "")
        case Purpose.FIRST_PERSON:
            return join_first(state, token, password or "", names or {})
        case Purpose.CUSTOMER_PAGE:
            raise Unauthorized(_DEAD)
        case Purpose.SIGN_IN:
            found = _use_token(state, token, Purpose.SIGN_IN)
            with state.writing_home() as connection:
                _alive(connection, token, state.now(), lock=True)
                sessions.use_one_time_token(connection, digest(token), state.now())
            return found.subject_id


def sign_in_link(state: State, org_id: str, person_id: str) -> str:
    """The token of a link that signs a person in, once, within a day."""
    with state.transaction(org_id, SYSTEM) as transaction:
        return _link(transaction, Purpose.SIGN_IN, person_id, transaction.now + NEW_PASSWORD)


# --- The first person of an organization --------------------------------------------------------


def first_person_links(state: State) -> dict[str, str]:
    """For each organization that has no people yet, by its code: the token of a link for the first.

    It works once, within a day, and as long as nobody has joined; a new one replaces the last one.
    """
    with state.reading_home() as connection:
        with_users = people.organizations_with_users(connection)
    links = {}
    for organization in state.organizations():
        if organization.id in with_users:
            continue
        with state.transaction(organization.id, SYSTEM) as transaction:
            until = transaction.now + NEW_PASSWORD
            # Every organization has the policy that allows everything.
            id_ = next(
                each.id
                for each in transaction.all(PermissionPolicy)
                if each.entity.name == ADMINISTRATOR.name
            )
            links[organization.code] = _link(transaction, Purpose.FIRST_PERSON, id_, until)
    return links


def join_first(state: State, token: str, password: str, names: Mapping[str, str]) -> str:
    """Become the first person of an organization, its administrator; the id of the person.

    Raises:
        Unauthorized: The link is unknown, over or used, or somebody has joined meanwhile.
        Invalid: The password is too short or too long, or a name or the address is missing.
        Conflict: The e-mail address is of a person of another organization of the home.
    """
    found = _use_token(state, token, Purpose.FIRST_PERSON)
    invitation = read(Invitation, {name: names.get(name, "") for name in _NAMES})
    _check_letter(invitation)
    secret = hash_password(password)
    with state.transaction(found.org, SYSTEM) as transaction:
        _alive(transaction.connection, token, transaction.now, lock=True)
        if people.has_users(transaction):
            raise Unauthorized(_DEAD)
        if people.person_by_email(transaction.connection, invitation.email) is not None:
            raise Conflict(
                f"{invitation.email} belongs to a person of another organization here; choose"
                " another address, and invite that person afterwards"
            )
        person_id = _person_of(transaction, invitation, secret)
        people.add_user(transaction, person_id, None)
        access.grant(transaction, found.subject_id, person_id, PrincipalType.USER)
        sessions.use_one_time_token(transaction.connection, digest(token), transaction.now)
        return person_id


def _use_token(state: State, token: str, purpose: Purpose) -> OneTimeToken:
    with state.reading_home() as connection:
        found = _alive(connection, token, state.now())
    if found.purpose is not purpose:
        raise Unauthorized(_DEAD)
    return found


def _alive(
    connection: Connection, token: str, now: datetime, *, lock: bool = False
) -> OneTimeToken:
    found = sessions.one_time_token(connection, digest(token), lock=lock)
    if found is None or found.used is not None or found.expires <= now:
        raise Unauthorized(_DEAD)
    if found.purpose is Purpose.CUSTOMER_PAGE:
        raise Unauthorized(_DEAD)
    return found


def _person_of(transaction: Transaction, invited: Invitation, secret: str | None) -> str:
    connection, now = transaction.connection, transaction.now
    person = people.person_by_email(connection, invited.email)
    if person is None:
        made = Person(
            transaction.new_id(),
            invited.email,
            invited.first_name,
            invited.last_name,
            invited.contact_number,
            secret,
            # An organization cannot make people that may enter others: see `make_support_user`.
            False,
            now,
            now,
            now,
        )
        people.add_person(connection, made)
        return made.id
    changes: Document = {"last_accepted_terms": now}
    if person.password_hash is None:
        changes["password_hash"] = secret
    people.change_person(connection, person.id, **changes)
    return person.id
