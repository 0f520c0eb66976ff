"""What integrations do at the moment: their newest runs, and why some send nothing."""

from typing import Any

from sqlalchemy import Connection, Row, and_, select

from meterlake.model.values.integration_facts import IntegrationFacts
from meterlake.stores.state.core.tables import METADATA
from meterlake.stores.state.integrations.refusals import refusing_destinations
from meterlake.stores.state.integrations.run_tables import DESTINATION_HEALTH, INTEGRATION_RUN

# The status of a run of which nothing has been tried yet.
_WAITING = "WAITING"


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
    disabled = _reason_of_end(connection, org_id, ids)
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


def _reason_of_end(connection: Connection, org_id: str, ids: list[str]) -> str | None:
    column = DESTINATION_HEALTH.c
    query = select(column.reason).where(
        column.org == org_id, column.destination_id.in_(ids), column.disabled.is_not(None)
    )
    row = connection.execute(query).first()
    return None if row is None else row.reason or "it was disabled"


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
