"""How destinations are doing: failures in a row, pauses, and why one is disabled."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select

from meterlake.stores.state.integrations.run_tables import DESTINATION_HEALTH


@dataclass(frozen=True, slots=True)
class Health:
    """How a destination is doing.

    Attributes:
        failures: Tries in a row that failed.
        failing_since: When the first of them began.
        paused_until: Nothing is sent before.
        disabled: Since when nothing is sent at all.
        reason: Why.
    """

    failures: int = 0
    failing_since: datetime | None = None
    paused_until: datetime | None = None
    disabled: datetime | None = None
    reason: str | None = None


HEALTHY = Health()


def troubled_destinations(connection: Connection) -> dict[str, Health]:
    """All destinations whose last try failed, of all organizations, by id."""
    rows = connection.execute(select(DESTINATION_HEALTH))
    return {row.destination_id: _health_of(row) for row in rows}


def health_of(connection: Connection, org_id: str, ids: Collection[str]) -> dict[str, Health]:
    """How some destinations are doing; those without a failure are left out."""
    column = DESTINATION_HEALTH.c
    query = select(DESTINATION_HEALTH).where(column.org == org_id, column.destination_id.in_(ids))
    return {row.destination_id: _health_of(row) for row in connection.execute(query)}


def write_health(connection: Connection, org_id: str, destination_id: str, health: Health) -> None:
    """Write down how a destination is doing."""
    forget_health(connection, org_id, destination_id)
    if health != HEALTHY:
        facts: dict[str, Any] = {name: getattr(health, name) for name in Health.__slots__}
        key = {"org": org_id, "destination_id": destination_id}
        connection.execute(insert(DESTINATION_HEALTH), {**key, **facts})


def forget_health(connection: Connection, org_id: str, destination_id: str) -> None:
    """Have a destination be as if nothing had ever failed: also one that was disabled."""
    column = DESTINATION_HEALTH.c
    mine = (column.org == org_id, column.destination_id == destination_id)
    connection.execute(delete(DESTINATION_HEALTH).where(*mine))


def _health_of(row: Row[Any]) -> Health:
    return Health(**{name: getattr(row, name) for name in Health.__slots__})
