"""Bills of contracts: what tells bills of one date and period apart."""

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_IDENTITY = ["org", "account_id", "bill_date", "frequency", "interval"]
# What refers to bills.
_PARTS = ("bill_line", "bill_memo")


def upgrade() -> None:
    """Add the grouping key; bills of before have none."""
    with _parts_aside(), op.batch_alter_table("bill") as bill:
        bill.add_column(sa.Column("grouping_key", sa.String(36), nullable=False, server_default=""))
        bill.drop_constraint("bill_identity", type_="unique")
        bill.create_unique_constraint("bill_identity", [*_IDENTITY, "grouping_key"])


def downgrade() -> None:
    """Drop it, and the bills that only it tells apart, with their lines."""
    bill = sa.table("bill", sa.column("id"), sa.column("grouping_key"))
    grouped = sa.select(bill.c.id).where(bill.c.grouping_key != "")
    for name in _PARTS:
        part = sa.table(name, sa.column("bill_id"))
        op.execute(part.delete().where(part.c.bill_id.in_(grouped)))
    op.execute(bill.delete().where(bill.c.grouping_key != ""))
    with _parts_aside(), op.batch_alter_table("bill") as table:
        table.drop_constraint("bill_identity", type_="unique")
        table.create_unique_constraint("bill_identity", _IDENTITY)
        table.drop_column("grouping_key")


@contextmanager
def _parts_aside() -> Iterator[None]:
    """Keep what refers to bills elsewhere: SQLite makes the table anew, which would break it."""
    if op.get_bind().dialect.name != "sqlite":
        yield
        return
    for name in _PARTS:
        op.execute(f"CREATE TABLE {name}_aside AS SELECT * FROM {name}")
        op.execute(f"DELETE FROM {name}")
    yield
    for name in _PARTS:
        op.execute(f"INSERT INTO {name} SELECT * FROM {name}_aside")
        op.execute(f"DROP TABLE {name}_aside")
