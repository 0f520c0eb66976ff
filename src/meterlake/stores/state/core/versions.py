"""Every version that entities of a kind ever had, as documents: what analysts read."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import func, select

from meterlake.model.values import wire
from meterlake.model.values.entity import Entity
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY_HISTORY


def versions(reader: Reader, kind: type[Entity]) -> Iterator[dict[str, Any]]:
    """The versions of all entities of a kind, oldest first; deletions only end the one before.

    Their secrets are as they are stored: encrypted, and not for showing. Entities are not checked
    against the rules of today, which those of another day may break.

    Yields:
        The fields as on the wire with the envelope, `validFrom` and `validTo`.
    """
    table = ENTITY_HISTORY.c
    query = (
        select(ENTITY_HISTORY)
        .where(table.org == reader.org_id, table.kind == kind.__name__, table.body.is_not(None))
        .order_by(table.valid_from, table.id, table.version)
    )
    for row in reader.connection.execute(query):
        yield {
            **wire.loads(row.body),
            "id": row.id,
            "version": row.version,
            "validFrom": row.valid_from,
            "validTo": row.valid_to,
            "dtCreated": row.created,
            "createdBy": row.created_by,
            "dtLastModified": row.valid_from,
            "lastModifiedBy": row.author,
        }


def count_versions(reader: Reader) -> int:
    """How many versions all entities of the organization ever had: each change adds one."""
    query = select(func.count()).where(ENTITY_HISTORY.c.org == reader.org_id)
    return int(reader.connection.scalar(query.select_from(ENTITY_HISTORY)) or 0)


def ids_that_referred(reader: Reader, kind: type[Entity], id_: str) -> list[str]:
    """The ids of all entities of a kind that ever had the id of another one in them."""
    table = ENTITY_HISTORY.c
    query = select(table.id).where(
        table.org == reader.org_id,
        table.kind == kind.__name__,
        table.body.contains(f'"{id_}"', autoescape=True),
    )
    return sorted(reader.connection.scalars(query.distinct()))
