"""Sign-ins of people: sessions, the codes and refresh tokens below them, links good for once, and keys.

Only SHA-256 hashes of the tokens are stored: each token is 256 random bits. The keys sign tokens of
access.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from meterlake.model.errors import NotFound
from meterlake.stores.state.access.access_tables import GRANT, ONE_TIME_TOKEN, SESSION, SIGNING_KEY
from meterlake.stores.state.core.tables import ORGANIZATION


class GrantKind(StrEnum):
    """What can be exchanged for an access token."""

    CODE = "code"
    REFRESH = "refresh"


class Purpose(StrEnum):
    """What a link is good for: once, or for the page of a customer until it ends."""

    INVITATION = "invitation"
    PASSWORD = "password"  # noqa: S105 - the word, not one
    CUSTOMER_PAGE = "customer-page"
    # Of an organization that nobody signs in to yet: whoever has it becomes its administrator.
    FIRST_PERSON = "first-person"
    SIGN_IN = "sign-in"


@dataclass(frozen=True, slots=True)
class Session:
    """One sign-in of a person."""

    id: str
    token_sha256: str
    person_id: str
    created: datetime
    expires: datetime


@dataclass(frozen=True, slots=True)
class Grant:
    """Something that its holder may exchange once for a token of one organization."""

    token_sha256: str
    kind: GrantKind
    session_id: str
    org: str
    redirect_uri: str | None
    challenge: str | None
    expires: datetime
    used: datetime | None = None


@dataclass(frozen=True, slots=True)
class OneTimeToken:
    """What stands behind a link in a letter."""

    token_sha256: str
    purpose: Purpose
    org: str
    subject_id: str
    expires: datetime
    used: datetime | None = None
    created: datetime | None = None
    created_by: str | None = None


def add_session(connection: Connection, made: Session) -> None:
    """Remember a sign-in, and forget those that are over."""
    connection.execute(delete(SESSION).where(SESSION.c.expires <= made.created))
    connection.execute(insert(SESSION), _row(made))


def session_of(connection: Connection, token_sha256: str, now: datetime) -> Session | None:
    """The living session of a cookie, or None."""
    table = SESSION.c
    query = select(SESSION).where(table.token_sha256 == token_sha256, table.expires > now)
    row = connection.execute(query).first()
    return None if row is None else Session(**row._asdict())


def session(connection: Connection, id: str, now: datetime) -> Session | None:
    """A living session by id, or None."""
    query = select(SESSION).where(SESSION.c.id == id, SESSION.c.expires > now)
    row = connection.execute(query).first()
    return None if row is None else Session(**row._asdict())


def living_sessions(connection: Connection, person_id: str, now: datetime) -> list[Session]:
    """The sessions of a person that have not ended, the newest first."""
    table = SESSION.c
    query = select(SESSION).where(table.person_id == person_id, table.expires > now)
    rows = connection.execute(query.order_by(table.created.desc(), table.id))
    return [Session(**row._asdict()) for row in rows]


def end_session(connection: Connection, id: str) -> None:
    """End a session with everything below it."""
    connection.execute(delete(SESSION).where(SESSION.c.id == id))


def end_sessions(connection: Connection, person_id: str) -> None:
    """End every session of a person."""
    connection.execute(delete(SESSION).where(SESSION.c.person_id == person_id))


def add_grant(connection: Connection, made: Grant) -> None:
    """Remember what may be exchanged.

    Raises:
        NotFound: The session has ended, perhaps in this very moment.
    """
    try:
        connection.execute(insert(GRANT), _row(made))
    except IntegrityError:
        raise NotFound("session", made.session_id) from None


def take_grant(connection: Connection, token_sha256: str, now: datetime) -> Grant | None:
    """Use what may be exchanged; `used` says when that happened before, and it must be refused."""
    query = select(GRANT).where(GRANT.c.token_sha256 == token_sha256).with_for_update()
    row = connection.execute(query).first()
    if row is None:
        return None
    mark = update(GRANT).where(GRANT.c.token_sha256 == token_sha256, GRANT.c.used.is_(None))
    connection.execute(mark.values(used=now))
    return Grant(**{**row._asdict(), "kind": GrantKind(row.kind)})


def add_one_time_token(connection: Connection, made: OneTimeToken) -> None:
    """Remember a link; earlier ones for the same end become void, and stay if somebody made them."""
    table = ONE_TIME_TOKEN.c
    earlier = (table.subject_id == made.subject_id, table.purpose == made.purpose)
    connection.execute(delete(ONE_TIME_TOKEN).where(*earlier, table.created_by.is_(None)))
    if made.created is not None:
        ending = update(ONE_TIME_TOKEN).where(*earlier, table.expires > made.created)
        connection.execute(ending.values(expires=made.created))
    connection.execute(insert(ONE_TIME_TOKEN), _row(made))


def one_time_token(
    connection: Connection, token_sha256: str, *, lock: bool = False
) -> OneTimeToken | None:
    """What stands behind a link, or None; with `lock`, nobody else uses it meanwhile."""
    query = select(ONE_TIME_TOKEN).where(ONE_TIME_TOKEN.c.token_sha256 == token_sha256)
    row = connection.execute(query.with_for_update() if lock else query).first()
    if row is None:
        return None
    return OneTimeToken(**{**row._asdict(), "purpose": Purpose(row.purpose)})


def use_one_time_token(connection: Connection, token_sha256: str, now: datetime) -> None:
    """A link was followed to its end."""
    query = update(ONE_TIME_TOKEN).where(ONE_TIME_TOKEN.c.token_sha256 == token_sha256)
    connection.execute(query.values(used=now))


def accepted_invitations(connection: Connection, invitation_ids: list[str]) -> set[str]:
    """Which of some invitations were accepted."""
    table = ONE_TIME_TOKEN.c
    query = select(table.subject_id).where(
        table.subject_id.in_(invitation_ids), table.used.is_not(None)
    )
    return set(connection.execute(query).scalars())


def _row(value: Session | Grant | OneTimeToken) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key; it signs while it is the newest, and verifies until `not_after`."""

    kid: str
    private_key: str = field(repr=False)
    created: datetime
    not_after: datetime | None


def valid_keys(connection: Connection, now: datetime) -> list[SigningKey]:
    """The keys that verify, the newest first."""
    table = SIGNING_KEY.c
    query = (
        select(SIGNING_KEY)
        .where(table.not_after.is_(None) | (table.not_after > now))
        .order_by(table.not_after.is_not(None), table.created.desc(), table.kid)
    )
    return [
        SigningKey(row.kid, row.private_key, row.created, row.not_after)
        for row in connection.execute(query)
    ]


def add_signing_key(connection: Connection, key: SigningKey, retire: datetime | None) -> None:
    """Store the key that signs from now on; the ones before verify until `retire`."""
    if retire is not None:
        query = update(SIGNING_KEY).where(
            SIGNING_KEY.c.not_after.is_(None) | (SIGNING_KEY.c.not_after > retire)
        )
        connection.execute(query.values(not_after=retire))
    row = {
        "kid": key.kid,
        "private_key": key.private_key,
        "created": key.created,
        "not_after": key.not_after,
    }
    connection.execute(insert(SIGNING_KEY), row)


def lock_keys(connection: Connection) -> None:
    """Let one process at a time decide about keys, where the database has many writers."""
    connection.execute(select(ORGANIZATION.c.id).order_by(ORGANIZATION.c.id).with_for_update())
