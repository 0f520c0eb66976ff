"""A function of PostgreSQL that reads JSON and fails no statement: of what is none, it gives NULL.

Revision ID: 0039
Revises: 0038
"""

from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

# Servers before version 16 can only try. Whether a text is JSON depends on nothing else.
_MAKE = """
CREATE OR REPLACE FUNCTION readable_json(body text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
  RETURN body::jsonb;
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
        op.execute("DROP FUNCTION IF EXISTS readable_json(text)")
