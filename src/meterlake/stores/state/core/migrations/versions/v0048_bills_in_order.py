"""Bills are found in the order of their dates, and added up, without reading all of them."""

from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Widen the index of dates by what lists go on with, and add one that has what sums need."""
    op.drop_index("bill_dated", "bill")
    op.create_index("bill_dated", "bill", ["org", "bill_date", "created", "id"])
    op.create_index("bill_sums", "bill", ["org", "currency", "status", "locked", "total"])
