"""Who has access: people and their memberships, sessions, tokens, signing keys, groups."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _id(name: str, **options: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(36), **options)  # type: ignore[arg-type]


def _org(**options: bool) -> sa.Column[str]:
    return sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), **options)  # type: ignore[arg-type]


def _person(**options: bool) -> sa.Column[str]:
    return sa.Column("person_id", sa.String(36), sa.ForeignKey("person.id"), **options)  # type: ignore[arg-type]


def _hash(**options: bool) -> sa.Column[str]:
    return sa.Column("token_sha256", sa.String(64), **options)  # type: ignore[arg-type]


def _instant(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(27), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "signing_key",
        _id("kid", primary_key=True),
        _text("private_key"),
        _instant("created"),
        _instant("not_after", nullable=True),
    )
    _create_people()
    _create_sessions()
    op.create_table(
        "resource_group_member",
        _org(primary_key=True),
        _id("group_id", primary_key=True),
        _id("target_id", primary_key=True),
        sa.Column("target_type", sa.String(10), nullable=False),
        _id("id", nullable=False, unique=True),
        _instant("created"),
        _text("created_by"),
        sa.Index("resource_group_member_target", "org", "target_id"),
    )
    op.create_index("policy_grant_principal", "policy_grant", ["org", "principal_id"])


def _create_people() -> None:
    op.create_table(
        "person",
        _id("id", primary_key=True),
        sa.Column("email", sa.String(320), nullable=False, unique=True),
        _text("first_name"),
        _text("last_name"),
        _text("contact_number", nullable=True),
        _text("password_hash", nullable=True),
        sa.Column("support_user", sa.Boolean, nullable=False),
        _instant("first_accepted_terms", nullable=True),
        _instant("last_accepted_terms", nullable=True),
        _instant("created"),
    )
    op.create_table(
        "membership",
        _org(primary_key=True),
        _person(primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        _text("permission_policy"),
        _instant("end_access", nullable=True),
        _instant("created"),
        _text("created_by"),
        _instant("modified"),
        _text("modified_by"),
        sa.Index("membership_person", "person_id"),
    )


def _create_sessions() -> None:
    op.create_table(
        "session",
        _id("id", primary_key=True),
        _hash(nullable=False, unique=True),
        _person(nullable=False),
        _instant("created"),
        _instant("expires"),
        sa.Index("session_person", "person_id"),
    )
    op.create_table(
        "session_grant",
        _hash(primary_key=True),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column(
            "session_id",
            sa.String(36),
            sa.ForeignKey("session.id", ondelete="CASCADE"),
            nullable=False,
        ),
        _org(nullable=False),
        _text("redirect_uri", nullable=True),
        sa.Column("challenge", sa.String(128)),
        _instant("expires"),
        _instant("used", nullable=True),
        sa.Index("session_grant_session", "session_id"),
    )
    op.create_table(
        "one_time_token",
        _hash(primary_key=True),
        sa.Column("purpose", sa.String(20), nullable=False),
        _org(nullable=False),
        _id("subject_id", nullable=False),
        _instant("expires"),
        _instant("used", nullable=True),
        sa.Index("one_time_token_subject", "subject_id"),
    )
