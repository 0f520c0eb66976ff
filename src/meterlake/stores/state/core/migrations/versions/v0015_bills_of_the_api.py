"""Bills as the API shows them: who approved and locked them, their numbers, and lines of people."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_COLUMNS = (
    ("approved", sa.String(27)),
    ("approved_by", sa.Text),
    ("locked_at", sa.String(27)),
    ("locked_by", sa.Text),
    ("calculated", sa.String(27)),
    ("job_id", sa.String(36)),
    ("invoice_number", sa.Text),
)


def upgrade() -> None:
    """Add columns and tables; what a bill says of its last change is taken over."""
    for name, type_ in _COLUMNS:
        op.add_column("bill", sa.Column(name, type_))
    _take_over()
    op.create_index("bill_newest", "bill", ["org", "created", "id"])
    op.create_index("bill_dated", "bill", ["org", "bill_date"])
    op.create_table(
        "invoice_sequence",
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), primary_key=True),
        sa.Column("last", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "bill_memo",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("org", sa.String(36), sa.ForeignKey("organization.id"), nullable=False),
        sa.Column("bill_id", sa.String(36), sa.ForeignKey("bill.id"), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("reason_id", sa.String(36)),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("line", sa.Text, nullable=False),
        sa.Column("created", sa.String(27), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("modified", sa.String(27), nullable=False),
        sa.Column("modified_by", sa.Text, nullable=False),
        sa.UniqueConstraint("bill_id", "position", name="bill_memo_position"),
    )
    op.create_index("bill_memo_reason", "bill_memo", ["org", "reason_id"])


def _take_over() -> None:
    """The last change of a locked bill locked it, that of an approved one approved it."""
    names = ("status", "locked", "created", "modified", "modified_by", *(n for n, _ in _COLUMNS))
    bill = sa.table("bill", *(sa.column(name) for name in names))
    is_locked = bill.c.locked.is_(sa.true())
    was_approved = sa.and_(bill.c.status == "APPROVED", sa.not_(is_locked))
    for condition, time, author in (
        (is_locked, "locked_at", "locked_by"),
        (was_approved, "approved", "approved_by"),
    ):
        values = {time: bill.c.modified, author: bill.c.modified_by}
        op.execute(bill.update().where(condition).values(**values))
    calculated = sa.case((bill.c.status == "PENDING", bill.c.modified), else_=bill.c.created)
    op.execute(bill.update().values(calculated=calculated))


def downgrade() -> None:
    """Drop them; lines of people go from their bills, whose totals stay until the next calculation."""
    lines = sa.table("bill_line", sa.column("bill_id"), sa.column("key"))
    memos = sa.table("bill_memo", sa.column("bill_id"), sa.column("key"))
    of_memo = sa.exists().where(memos.c.bill_id == lines.c.bill_id, memos.c.key == lines.c.key)
    op.execute(lines.delete().where(of_memo))
    op.drop_table("bill_memo")
    op.drop_table("invoice_sequence")
    op.drop_index("bill_dated", "bill")
    op.drop_index("bill_newest", "bill")
    for name, _ in _COLUMNS:
        op.drop_column("bill", name)
