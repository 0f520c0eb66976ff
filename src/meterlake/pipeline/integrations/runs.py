"""Runs of integrations as people see them: where they stand, and what was sent and answered."""

import base64
from typing import Any, Final

from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Stores
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.runs import (
    IntegrationRun,
    RunFilters,
    find_run,
    page_of_runs,
)
from meterlake.stores.state.integrations.tries import RunTry, tries_of

_ENDED: Final = frozenset(RunStatus) - {
    RunStatus.WAITING,
    RunStatus.STARTED,
    RunStatus.AWAITING_RETRY,
    RunStatus.RATE_LIMIT_RETRY,
}


def list_runs(stores: Stores, org_id: str, filters: RunFilters, page: Page) -> Document:
    """One page of runs.

    Raises:
        Invalid: The token is none that a list gave.
    """
    with stores.state.reading(org_id) as reader:
        found, token = page_of_runs(reader.connection, org_id, filters, page)
    return envelope([run_document(each) for each in found], token)


def get_run(stores: Stores, org_id: str, id: str) -> Document:
    """One run.

    Raises:
        NotFound: There is none of that id.
    """
    with stores.state.reading(org_id) as reader:
        return run_document(find_run(reader.connection, org_id, id))


def latest_run(stores: Stores, org_id: str, entity_type: str, entity_id: str) -> Document:
    """The newest run of an entity.

    Raises:
        NotFound: There is none.
    """
    filters = RunFilters(entity_type=entity_type, entity_ids=(entity_id,))
    found = list_runs(stores, org_id, filters, Page(1))["data"]
    if not found:
        raise NotFound(f"integration run of {entity_type}", entity_id)
    first: Document = found[0]
    return first


def latest_runs(
    stores: Stores, org_id: str, entity_type: str, entity_ids: tuple[str, ...], page: Page
) -> Document:
    """The newest run of each of some entities, or of all; the first one's members stand beside them.

    The contract types the answer as one run although it takes several ids.

    Raises:
        NotFound: There is none: a page without entries is no run.
    """
    filters = RunFilters(entity_type=entity_type, entity_ids=entity_ids, latest=True)
    found = list_runs(stores, org_id, filters, page)
    if not found["data"]:
        raise NotFound("integration run of entity type", entity_type)
    return {**found["data"][0], **found}


def run_log(stores: Stores, org_id: str, id: str) -> Document:
    """What a run sent and got, try by try, without secrets: JSON in Base64, as the contract has it.

    Raises:
        NotFound: There is none of that id.
    """
    data = wire.dumps(run_history(stores, org_id, id))
    return {"Payload": base64.b64encode(data).decode()}


def run_history(stores: Stores, org_id: str, id: str) -> Document:
    """A run, its body, and its tries.

    Raises:
        NotFound: There is none of that id.
    """
    with stores.state.reading(org_id) as reader:
        run = find_run(reader.connection, org_id, id)
        tries = tries_of(reader.connection, id)
    tried = [_try_document(each) for each in tries]
    shown = {**run_document(run), "body": run.content.body, "tries": tried}
    return {name: value for name, value in shown.items() if value is not None}


def run_document(run: IntegrationRun) -> Document:
    """A run as `IntegrationRunResponse`, with the configuration and the account that it is for."""
    job, content = run.job, run.content
    author = job.author or SYSTEM
    shown: dict[str, Any] = {
        "id": run.id,
        "version": job.version,
        "entityType": content.entity_type,
        "entityId": content.entity_id,
        "status": run.status.value,
        "action": content.action,
        "destination": content.destination,
        "destinationId": content.destination_id,
        "dtStarted": job.started,
        "dtCompleted": job.finished if run.status in _ENDED else None,
        "error": job.error,
        "url": run.url,
        "externalId": run.external_id,
        "parentIntegrationRunId": content.parent_id,
        "replayedFromIntegrationRunId": content.replayed_from,
        "integrationConfigId": content.config_id,
        "accountId": content.account_id,
        "eventId": content.event_id,
        "dtCreated": run.created,
        "createdBy": author,
        "dtLastModified": job.finished or job.started or run.created,
        "lastModifiedBy": author,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _try_document(tried: RunTry) -> dict[str, Any]:
    shown = {
        "number": tried.number,
        "dtStarted": tried.started,
        "dtCompleted": tried.ended,
        "request": tried.request,
        "statusCode": tried.status_code,
        "response": tried.response,
        "error": tried.error,
    }
    return {name: value for name, value in shown.items() if value is not None}
