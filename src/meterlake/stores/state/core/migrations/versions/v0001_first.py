"""The first schema: organizations, versioned entities with history, access, jobs, bills."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _id(name: str, **options: bool) -> sa.Column[str]:
    return sa.Column(name, sa.String(36), **options)  # type: ignore[arg-type]


def _org(**options: bool) -> sa.Column[str]:
    return sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), **options)  # type: ignore[arg-type]


def _instant(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(27), nullable=nullable)


def _author(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False)


def _body(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=nullable)


def upgrade() -> None:
    """Create every table."""
    op.create_table(
        "organization",
        _id("id", primary_key=True),
        sa.Column("code", sa.String(80), nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        _instant("created"),
    )
    _create_entities()
    _create_access()
    _create_jobs()
    _create_bills()


def _create_entities() -> None:
    op.create_table(
        "entity",
        _org(primary_key=True),
        sa.Column("kind", sa.String(80), primary_key=True),
        _id("id", primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("code", sa.String(80)),
        _body("body"),
        _instant("created"),
        _author("created_by"),
        _instant("modified"),
        _author("modified_by"),
        sa.UniqueConstraint("org", "kind", "code", name="entity_code"),
    )
    op.create_table(
        "entity_reference",
        _org(primary_key=True),
        sa.Column("kind", sa.String(80), primary_key=True),
        _id("id", primary_key=True),
        sa.Column("field", sa.String(200), primary_key=True),
        sa.Column("target_kind", sa.String(80), nullable=False),
        _id("target_id", nullable=False),
        sa.Index("entity_reference_target", "org", "target_kind", "target_id"),
    )
    op.create_table(
        "entity_history",
        _org(primary_key=True),
        sa.Column("kind", sa.String(80), primary_key=True),
        _id("id", primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True),
        _instant("valid_from"),
        _instant("valid_to", nullable=True),
        _body("body", nullable=True),
        _author("author"),
        _instant("created"),
        _author("created_by"),
        sa.Index("entity_history_time", "org", "valid_from"),
    )


def _create_access() -> None:
    op.create_table(
        "access_key",
        _id("id", primary_key=True),
        _org(nullable=False),
        _id("service_user_id", nullable=False),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        _instant("created"),
        sa.Index("access_key_user", "org", "service_user_id"),
    )
    op.create_table(
        "policy_grant",
        _org(primary_key=True),
        _id("policy_id", primary_key=True),
        sa.Column("principal_type", sa.String(20), primary_key=True),
        _id("principal_id", primary_key=True),
        _id("id", nullable=False, unique=True),
        _instant("created"),
        _author("created_by"),
    )


def _create_jobs() -> None:
    op.create_table(
        "job",
        _id("id", primary_key=True),
        _org(nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        _body("parameters"),
        _instant("lease_until", nullable=True),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("snapshot", sa.BigInteger),
        _body("result", nullable=True),
        _body("error", nullable=True),
        _instant("created"),
        _instant("started", nullable=True),
        _instant("finished", nullable=True),
        sa.Index("job_recent", "org", "created"),
    )


def _create_bills() -> None:
    op.create_table(
        "bill",
        _id("id", primary_key=True),
        _org(nullable=False),
        _id("account_id", nullable=False),
        sa.Column("bill_date", sa.String(10), nullable=False),
        sa.Column("frequency", sa.String(20), nullable=False),
        sa.Column("interval", sa.Integer, nullable=False),
        sa.Column("period", sa.String(40), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("locked", sa.Boolean, nullable=False),
        sa.Column("currency", sa.String(80), nullable=False),
        sa.Column("total", sa.Text, nullable=False),
        _body("body"),
        _body("pins"),
        _instant("created"),
        _author("created_by"),
        _instant("modified"),
        _author("modified_by"),
        sa.UniqueConstraint(
            "org", "account_id", "bill_date", "frequency", "interval", name="bill_identity"
        ),
        sa.Index("bill_period", "org", "period"),
    )
    op.create_table(
        "bill_line",
        sa.Column("bill_id", sa.String(36), sa.ForeignKey("bill.id"), primary_key=True),
        sa.Column("sequence", sa.Integer, primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        _body("body"),
        _body("pins"),
        sa.UniqueConstraint("bill_id", "key", name="bill_line_key"),
    )
