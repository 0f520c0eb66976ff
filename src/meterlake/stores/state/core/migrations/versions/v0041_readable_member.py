"""A function of PostgreSQL that reads a member of JSON as text and fails no statement.

`readable_json` made a value of the whole text, of which one member was wanted.

Revision ID: 0041
Revises: 0040
"""

from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

_MAKE = """
CREATE OR REPLACE FUNCTION readable_member(body text, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN body::json ->> name;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END
$$
"""


def upgrade() -> None:
    """Make it; SQLite has one of its own."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_MAKE)


def downgrade() -> None:
    """Drop it."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DROP FUNCTION IF EXISTS readable_member(text, text)")
