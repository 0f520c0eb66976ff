"""Accounts are found by what people sort and look them up by, without reading all of them."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

# As lists write it: an index serves the expression that it has, and no other.
_TEXTS: Final = {
    "sqlite": "CASE WHEN json_valid(body) THEN CAST((body ->> '{}') AS TEXT) END",
    "postgresql": "readable_member(body, '{}'::text)",
}
_FOLDED: Final = {"sqlite": "lower({})", "postgresql": '(lower({}) COLLATE "C")'}


def upgrade() -> None:
    """Add the indexes, one expression each, of accounts only."""
    dialect = op.get_bind().dialect.name
    texts = {
        "entity_account_code": "code",
        "entity_account_name": _TEXTS[dialect].format("name"),
        "entity_account_email": _TEXTS[dialect].format("emailAddress"),
        "entity_account_order": _TEXTS[dialect].format("purchaseOrderNumber"),
        "entity_account_currency": _TEXTS[dialect].format("currency"),
    }
    for name, each in texts.items():
        folded = _FOLDED[dialect].format(each)
        op.execute(
            sa.text(
                f"CREATE INDEX {name} ON entity (org, kind, {folded}, id) WHERE kind = 'Account'"
            )
        )
