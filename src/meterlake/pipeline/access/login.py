"""People sign in: password, session, authorization code with PKCE, tokens, sign-out."""

import base64
import hashlib
import hmac
import re
import secrets
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.errors import Forbidden, Invalid, NotFound, Unauthorized
from meterlake.pipeline.access.access import organizations_of, reaches
from meterlake.pipeline.access.tokens import Tokens
from meterlake.stores.state import State, new_id
from meterlake.stores.state.access import people, sessions
from meterlake.stores.state.access.access import digest
from meterlake.stores.state.access.sessions import Grant, GrantKind, Session

LENGTH_MIN: Final = 12
LENGTH_MAX: Final = 256

# The defaults of the library are the second choice of RFC 9106: 64 MB, three passes.
_HASHER: Final = PasswordHasher()
# Each hash takes that memory; so many at once are enough for people.
_AT_ONCE: Final = threading.BoundedSemaphore(2)
SESSION: Final = timedelta(hours=12)
CODE: Final = timedelta(seconds=60)
_TOKEN_BYTES: Final = 32
# RFC 7636, sections 4.1 and 4.2.
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")
CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")

_REFUSED: Final = "the code or refresh token is not valid; sign in again"


def hash_password(password: str, field: str = "password") -> str:
    """What is stored of a password.

    Raises:
        Invalid: It is too short or too long.
    """
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        rule = f"it must have {LENGTH_MIN} to {LENGTH_MAX} characters"
        raise Invalid(field, "***", rule)
    with _AT_ONCE:
        return _HASHER.hash(_bytes(password))


def matches(password: str, stored: str | None) -> bool:
    """Whether a password is the one of a hash; without a hash it only takes as long."""
    with _AT_ONCE:
        try:
            same = _HASHER.verify(stored or _nobodys(), _bytes(password[: LENGTH_MAX + 1]))
        except (VerificationError, InvalidHashError):
            return False
    return same and stored is not None


@cache
def _nobodys() -> str:
    return _HASHER.hash(b"the password of nobody")


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Issued:
    """What a person gets in exchange for a code or a refresh token."""

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)


def sign_in(state: State, email: str, password: str) -> str:
    """Start a session; the secret that the cookie holds.

    Raises:
        Unauthorized: There is no such person, or the password is another; nobody learns which.
    """
    person = None
    if "\x00" not in email:
        with state.reading_home() as connection:
            person = people.person_by_email(connection, email)
    if not matches(password, person.password_hash if person else None) or person is None:
        raise Unauthorized("the e-mail address or the password is wrong; check both")
    return begin_session(state, person.id)


def begin_session(state: State, person_id: str) -> str:
    """Start a session of a person who has shown who they are; the secret that the cookie holds."""
    secret, now = secrets.token_urlsafe(_TOKEN_BYTES), state.now()
    made = Session(new_id(), digest(secret), person_id, now, now + SESSION)
    with state.writing_home() as connection:
        sessions.add_session(connection, made)
    return secret


def session_of(state: State, secret: str) -> Session | None:
    """The living session of a cookie, or None."""
    with state.reading_home() as connection:
        return sessions.session_of(connection, digest(secret), state.now())


def sign_out(state: State, secret: str) -> None:
    """End a session, and all that came from it."""
    with state.writing_home() as connection:
        found = sessions.session_of(connection, digest(secret), state.now())
        if found is not None:
            sessions.end_session(connection, found.id)


def new_code(state: State, session: Session, org_id: str, redirect_uri: str, challenge: str) -> str:
    """A code that the holder of the challenge's verifier may exchange for tokens, once.

    Raises:
        Forbidden: The person has no access to the organization.
        Unauthorized: The organization has ended the sign-in.
    """
    if org_id not in {org for org, _ in organizations_of(state, session.person_id)}:
        raise Forbidden(
            "there is no access to this organization; ask one of its administrators for it"
        )
    if not reaches(state, session, org_id):
        raise Unauthorized("this organization has ended the sign-in; sign in again")
    code = secrets.token_urlsafe(_TOKEN_BYTES)
    expires = min(state.now() + CODE, session.expires)
    made = Grant(digest(code), GrantKind.CODE, session.id, org_id, redirect_uri, challenge, expires)
    with state.writing_home() as connection:
        sessions.add_grant(connection, made)
    return code


def challenge_of(verifier: str) -> str:
    """The challenge of a verifier by the method S256 (RFC 7636, section 4.2)."""
    hashed = hashlib.sha256(verifier.encode("utf-8", "surrogatepass")).digest()
    return base64.urlsafe_b64encode(hashed).decode().rstrip("=")


def exchange_code(
    state: State, tokens: Tokens, code: str, verifier: str, redirect_uri: str
) -> Issued:
    """Tokens for a code.

    Raises:
        Unauthorized: The code is unknown, over, used, or somebody else's.
    """
    grant, session = _take(state, code, GrantKind.CODE)
    same = hmac.compare_digest(challenge_of(verifier), grant.challenge or "")
    if not same or not _VERIFIER.fullmatch(verifier) or redirect_uri != grant.redirect_uri:
        raise Unauthorized(_REFUSED)
    return _issue(state, tokens, session, grant.org)


def exchange_refresh_token(state: State, tokens: Tokens, refresh_token: str) -> Issued:
    """New tokens for a refresh token, which is good once.

    Raises:
        Unauthorized: It is unknown, over or used. Using one twice ends the session.
    """
    grant, session = _take(state, refresh_token, GrantKind.REFRESH)
    return _issue(state, tokens, session, grant.org)


def _take(state: State, token: str, kind: GrantKind) -> tuple[Grant, Session]:
    now = state.now()
    with state.writing_home() as connection:
        grant = sessions.take_grant(connection, digest(token), now)
        session = None if grant is None else sessions.session(connection, grant.session_id, now)
        # Two hold the same token, and one of them stole it.
        if grant is not None and grant.used is not None:
            sessions.end_session(connection, grant.session_id)
            session = None
    if grant is None or session is None or grant.kind is not kind or grant.expires <= now:
        raise Unauthorized(_REFUSED)
    return grant, session


def _issue(state: State, tokens: Tokens, session: Session, org_id: str) -> Issued:
    known = {org for org, _ in organizations_of(state, session.person_id)}
    if org_id not in known or not reaches(state, session, org_id):
        raise Unauthorized(_REFUSED)
    refresh_token = secrets.token_urlsafe(_TOKEN_BYTES)
    grant = Grant(
        digest(refresh_token),
        GrantKind.REFRESH,
        session.id,
        org_id,
        None,
        None,
        session.expires,
    )
    try:
        with state.writing_home() as connection:
            if sessions.session(connection, session.id, state.now()) is None:
                raise Unauthorized(_REFUSED)
            sessions.add_grant(connection, grant)
    except NotFound:
        raise Unauthorized(_REFUSED) from None
    principal = Principal(PrincipalType.USER, session.person_id, org_id, session.id)
    return Issued(tokens.issue(principal), refresh_token)
