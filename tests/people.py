"""People for tests: invited, with a password, signed in."""

from meterlake.model.configuration.access import (
    Invitation,
    PermissionPolicy,
    Principal,
    PrincipalType,
)
from meterlake.pipeline.access import login, users
from meterlake.stores.state import State

PASSWORD = "correct horse battery staple"


def policy(state: State, org: str, *statements: dict) -> str:
    """A policy; its id."""
    document = {"name": "policy", "permissionPolicy": list(statements)}
    with state.transaction(org, "test") as transaction:
        return transaction.create(PermissionPolicy.from_wire(document)).id


def allow(action: str = "all", *resource: str) -> dict:
    """A statement that allows."""
    return {"effect": "allow", "action": [action], "resource": list(resource or ("*",))}


def deny(action: str = "all", *resource: str) -> dict:
    """A statement that denies."""
    return allow(action, *resource) | {"effect": "deny"}


def invitation(email: str = "Ada@Example.com", **fields) -> Invitation:
    """An invitation of Ada."""
    return Invitation.from_wire(
        {"firstName": "Ada", "lastName": "Lovelace", "email": email, **fields}
    )


def join(state: State, org: str, email: str = "Ada@Example.com", **fields) -> str:
    """Invite a person, who accepts; the person's id."""
    _, letter = users.invite(state, org, "USER_inviter", invitation(email, **fields))
    needed = users.needs_password(state, letter.token)
    return users.accept_invitation(state, letter.token, PASSWORD if needed else None)


def signed_in(state: State, org: str, email: str = "ada@example.com") -> Principal:
    """A person as a token would name her."""
    session = login.session_of(state, login.sign_in(state, email, PASSWORD))
    return Principal(PrincipalType.USER, session.person_id, org, session.id)
