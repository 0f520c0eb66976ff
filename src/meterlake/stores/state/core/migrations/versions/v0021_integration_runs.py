"""Runs of integrations, how their destinations are doing, and how far events were evaluated."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_INSTANT = sa.String(27)


def upgrade() -> None:
    """Create the tables; nothing has run, and events of the past are not evaluated."""
    op.add_column("event", sa.Column("category", sa.String(40)))
    op.add_column("event", sa.Column("base_id", sa.String(36)))
    _create_positions()
    _create_runs()
    _create_tries()
    _create_health()


def _create_positions() -> None:
    op.create_table(
        "event_position",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("reader", sa.String(40), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO event_position SELECT org, 'notifications', max(seq) FROM event GROUP BY org"
    )


def _create_runs() -> None:
    op.create_table(
        "integration_run",
        sa.Column("id", sa.String(36), sa.ForeignKey("job.id", name="run_job"), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("status", sa.String(40), nullable=False),
        sa.Column("config_id", sa.String(36)),
        sa.Column("config_version", sa.Integer),
        sa.Column("entity_type", sa.String(80), nullable=False),
        sa.Column("entity_id", sa.String(200), nullable=False),
        sa.Column("destination", sa.String(80), nullable=False),
        sa.Column("destination_id", sa.String(36)),
        sa.Column("run_key", sa.String(400), nullable=False),
        sa.Column("account_id", sa.String(36)),
        sa.Column("event_id", sa.String(36)),
        sa.Column("rule_version", sa.Integer),
        sa.Column("parent_id", sa.String(36)),
        sa.Column("replayed_from", sa.String(36)),
        sa.Column("body", sa.Text),
        sa.Column("external_id", sa.Text),
        sa.Column("url", sa.Text),
        sa.Column("created", _INSTANT, nullable=False),
    )
    op.create_index("integration_run_key", "integration_run", ["org", "run_key"], unique=True)
    for name, *columns in (
        ("entity", "entity_type", "entity_id"),
        ("destination", "destination_id"),
        ("config", "config_id"),
    ):
        ordered = ["org", *columns, "created", "id"]
        op.create_index(f"integration_run_{name}", "integration_run", ordered)


def _create_tries() -> None:
    run = sa.ForeignKey("integration_run.id")
    op.create_table(
        "integration_try",
        sa.Column("run_id", sa.String(36), run, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("started", _INSTANT, nullable=False),
        sa.Column("ended", _INSTANT),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("status_code", sa.Integer),
        sa.Column("response", sa.Text),
        sa.Column("error", sa.Text),
    )


def _create_health() -> None:
    op.create_table(
        "destination_health",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("destination_id", sa.String(36), primary_key=True),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failing_since", _INSTANT),
        sa.Column("paused_until", _INSTANT),
        sa.Column("disabled", _INSTANT),
        sa.Column("reason", sa.Text),
    )


def downgrade() -> None:
    """Drop them; the jobs of the runs go with them."""
    for name in ("destination_health", "integration_try", "integration_run", "event_position"):
        op.drop_table(name)
    op.execute("DELETE FROM job WHERE kind = 'integration_run'")
    op.drop_column("event", "base_id")
    op.drop_column("event", "category")
