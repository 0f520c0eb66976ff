"""External mappings are found by what they map."""

import json
import uuid

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_NAMESPACE = uuid.UUID("6f4c8a8e-2d0b-5b8e-9c55-3f1a7f0b9a11")
_ENTITY = sa.table(
    "entity", *(sa.column(each, sa.String) for each in ("org", "kind", "id", "body"))
)
_NAMES = ("org", "kind", "id", "field", "target_kind", "target_id")
_REFERENCE = sa.table("entity_reference", *(sa.column(each, sa.String) for each in _NAMES))
_FIELD = "m3ter_id"
_INDEXED = "="
_CHUNK = 1_000


def upgrade() -> None:
    """Write down the key of each mapping that there is."""
    connection = op.get_bind()
    column = _ENTITY.c
    query = sa.select(column.org, column.id, column.body).where(column.kind == "ExternalMapping")
    rows = [_row(*found) for found in connection.execute(query)]
    for start in range(0, len(rows), _CHUNK):
        connection.execute(sa.insert(_REFERENCE), rows[start : start + _CHUNK])


def downgrade() -> None:
    """Forget the keys."""
    op.execute(sa.delete(_REFERENCE).where(_REFERENCE.c.target_kind == _INDEXED))


def _row(org: str, id: str, body: str) -> dict[str, str]:
    value = json.loads(body)["m3terId"]
    target = str(uuid.uuid5(_NAMESPACE, f"indexed\x1f{_FIELD}\x1f{value}"))
    place = {"org": org, "kind": "ExternalMapping", "id": id, "field": f"{_INDEXED}{_FIELD}"}
    return {**place, "target_kind": _INDEXED, "target_id": target}
