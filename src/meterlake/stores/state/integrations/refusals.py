"""Destinations that refused the credentials that they were sent last."""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select

from meterlake.stores.state.core.tables import ENTITY
from meterlake.stores.state.integrations.run_tables import REFUSED_CREDENTIALS


def refusing_destinations(connection: Connection, org_id: str, ids: Collection[str]) -> set[str]:
    """Those of some destinations that refuse what they are sent."""
    column = REFUSED_CREDENTIALS.c
    query = select(column.destination_id).where(
        column.org == org_id, column.destination_id.in_(ids)
    )
    return set(connection.execute(query).scalars())


def write_refusal(
    connection: Connection, org_id: str, destination_id: str, refused: datetime
) -> None:
    """Write down that a destination refused credentials, unless they may be others by now.

    Args:
        connection: Of a transaction that writes.
        org_id: The organization.
        destination_id: A webhook, or the configuration of an integration.
        refused: When the try began.
    """
    column = ENTITY.c
    changed = select(column.id).where(
        column.org == org_id, column.id == destination_id, column.modified > refused
    )
    if connection.execute(changed).first() is None:
        forget_refusals(connection, org_id, [destination_id])
        row = {"org": org_id, "destination_id": destination_id, "refused": refused}
        connection.execute(insert(REFUSED_CREDENTIALS), row)


def forget_refusals(connection: Connection, org_id: str, ids: Collection[str]) -> None:
    """Have destinations count as ones that know who calls."""
    column = REFUSED_CREDENTIALS.c
    mine = (column.org == org_id, column.destination_id.in_(ids))
    connection.execute(delete(REFUSED_CREDENTIALS).where(*mine))
