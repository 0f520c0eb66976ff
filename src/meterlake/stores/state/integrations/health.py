"""How destinations are doing: failures in a row, pauses, refused credentials, and why one is disabled."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, delete, insert, select

from meterlake.model.values.entity import IntegrationFacts
from meterlake.stores.state.core.tables import ENTITY, METADATA
from meterlake.stores.state.integrations.run_tables import (
    DESTINATION_HEALTH,
    INTEGRATION_RUN,
    REFUSED_CREDENTIALS,
)

# The status of a run of which nothing has been tried yet.
_WAITING = "WAITING"


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


def integration_facts(
    connection: Connection, org_id: str, id: str, destination_id: str | None
) -> IntegrationFacts:
    """How an integration is doing.

    Args:
        connection: Reads State.
        org_id: The organization.
        id: Of the configuration.
        destination_id: The webhook that it leads to, if it leads to one.
    """
    ids = [id, *filter(None, [destination_id])]
    column = DESTINATION_HEALTH.c
    query = select(column.reason).where(
        column.org == org_id, column.destination_id.in_(ids), column.disabled.is_not(None)
    )
    row = connection.execute(query).first()
    disabled = None if row is None else row.reason or "it was disabled"
    is_refused = bool(refusing_destinations(connection, org_id, ids))
    run = _newest_run(connection, org_id, id)
    if run is None:
        return IntegrationFacts(disabled=disabled, is_refused=is_refused)
    return IntegrationFacts(
        disabled=disabled,
        is_refused=is_refused,
        status=run.status,
        started=run.started,
        completed=run.finished,
        error=run.error,
        url=run.url,
        external_id=run.external_id,
    )


def _newest_run(connection: Connection, org_id: str, id: str) -> Row[Any] | None:
    run, job = INTEGRATION_RUN.c, METADATA.tables["job"]
    query = (
        select(
            *(run.status, run.url, run.external_id),
            *(job.c.started, job.c.finished, job.c.error),
        )
        .join(job, and_(job.c.id == run.id))
        .where(run.org == org_id, run.config_id == id, run.status != _WAITING)
    )
    return connection.execute(query.order_by(run.created.desc(), run.id.desc()).limit(1)).first()
