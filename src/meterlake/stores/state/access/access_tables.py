"""The tables of who has access: people, sessions, tokens and keys. Secrets are there as hashes only."""

from typing import Any, Final

from sqlalchemy import Boolean, Column, ForeignKey, Index, Integer, String, Table, Text

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText


def _hash(**options: Any) -> Column[str]:
    return Column("token_sha256", String(64), **options)


def _person() -> Column[str]:
    return Column("person_id", String(36), ForeignKey("person.id"), nullable=False)


def _org(**options: Any) -> Column[str]:
    return Column("org", String(36), ForeignKey("organization.id"), **options)


def _instant(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, InstantText, nullable=nullable)


def _author(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


# The private half is encrypted with the key of the home.
SIGNING_KEY: Final = Table(
    "signing_key",
    METADATA,
    Column("kid", String(36), primary_key=True),
    Column("private_key", Text, nullable=False),
    _instant("created"),
    _instant("not_after", nullable=True),
)

PERSON: Final = Table(
    "person",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("email", StorableText(320), nullable=False, unique=True),
    Column("first_name", StorableText, nullable=False),
    Column("last_name", StorableText, nullable=False),
    Column("contact_number", StorableText),
    Column("password_hash", Text),
    Column("support_user", Boolean, nullable=False),
    _instant("first_accepted_terms", nullable=True),
    _instant("last_accepted_terms", nullable=True),
    _instant("created"),
)

MEMBERSHIP: Final = Table(
    "membership",
    METADATA,
    _org(primary_key=True),
    Column("person_id", String(36), ForeignKey("person.id"), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("permission_policy", StorableText, nullable=False),
    _instant("end_access", nullable=True),
    _instant("created"),
    _author("created_by"),
    _instant("modified"),
    _author("modified_by"),
    # No sign-in that began before it leads here any more.
    _instant("signed_out", nullable=True),
    Index("membership_person", "person_id"),
)

# One per sign-in; codes and refresh tokens go with it.
SESSION: Final = Table(
    "session",
    METADATA,
    Column("id", String(36), primary_key=True),
    _hash(nullable=False, unique=True),
    _person(),
    _instant("created"),
    _instant("expires"),
    Index("session_person", "person_id"),
)

# A code or a refresh token: good once; the second use of one ends its session.
GRANT: Final = Table(
    "session_grant",
    METADATA,
    _hash(primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("session_id", String(36), ForeignKey("session.id", ondelete="CASCADE"), nullable=False),
    _org(nullable=False),
    Column("redirect_uri", StorableText),
    Column("challenge", StorableText(128)),
    _instant("expires"),
    _instant("used", nullable=True),
    Index("session_grant_session", "session_id"),
)

# What a link in a letter holds: accept an invitation, choose a new password.
ONE_TIME_TOKEN: Final = Table(
    "one_time_token",
    METADATA,
    _hash(primary_key=True),
    Column("purpose", String(20), nullable=False),
    _org(nullable=False),
    Column("subject_id", String(36), nullable=False),
    _instant("expires"),
    _instant("used", nullable=True),
    _instant("created", nullable=True),
    Column("created_by", Text),
    Index("one_time_token_subject", "subject_id"),
)

GROUP_MEMBER: Final = Table(
    "resource_group_member",
    METADATA,
    _org(primary_key=True),
    Column("group_id", String(36), primary_key=True),
    Column("target_id", String(36), primary_key=True),
    Column("target_type", String(10), nullable=False),
    Column("id", String(36), nullable=False, unique=True),
    _instant("created"),
    _author("created_by"),
    Index("resource_group_member_target", "org", "target_id"),
)

# A request with a key acts once; the answer is encrypted with the key of the home.
IDEMPOTENCY_KEY: Final = Table(
    "idempotency_key",
    METADATA,
    Column("id", String(64), primary_key=True),
    _org(nullable=False),
    Column("request_sha256", String(64), nullable=False),
    _instant("created"),
    Column("answer", Text),
    Index("idempotency_key_created", "created"),
)
