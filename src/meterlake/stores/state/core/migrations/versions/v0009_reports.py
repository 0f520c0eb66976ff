"""Up to where a lake's ledger is reported, and the incidents that are open."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _org() -> sa.Column[str]:
    return sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True)


def upgrade() -> None:
    """Create both tables."""
    op.create_table("ledger_report", _org(), sa.Column("reported", sa.BigInteger, nullable=False))
    op.create_table(
        "incident",
        _org(),
        sa.Column("name", sa.String(80), primary_key=True),
        sa.Column("subject", sa.String(200), primary_key=True),
        sa.Column("event_id", sa.String(36), nullable=False),
        sa.Column("since", sa.String(27), nullable=False),
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_table("incident")
    op.drop_table("ledger_report")
