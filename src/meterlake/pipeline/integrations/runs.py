"""Runs of integrations as people see them and ask for them: where they stand, what was sent, a test, a repeat."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Row, literal, select, tuple_

from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import RunAction, RunStatus, WebhookDestination
from meterlake.model.errors import Conflict, NotFound
from meterlake.model.values import wire
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills.versions import which_are_there
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.queues import tries_of
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN
from meterlake.stores.state.integrations.runs import (
    REPLAY_MARK,
    IntegrationRun,
    NewRuns,
    RunContent,
    RunFilters,
    deletion_key,
    find_run,
    page_of_runs,
)
from meterlake.stores.state.jobs import JobStatus

_ENDED: Final = frozenset(RunStatus) - {
    RunStatus.WAITING,
    RunStatus.STARTED,
    RunStatus.AWAITING_RETRY,
    RunStatus.RATE_LIMIT_RETRY,
}
PING: Final = "webhook.ping"
# Runs of one transaction: other writers wait for no more.
_CHUNK: Final = 1_000


def list_runs(organization: Organization, filters: RunFilters, page: Page) -> Document:
    """One page of runs.

    Raises:
        Invalid: The token is none that a list gave.
    """
    with organization.reading() as reader:
        found, token = page_of_runs(reader.connection, organization.id, filters, page)
    return envelope([run_document(each) for each in found], token)


def get_run(organization: Organization, id: str) -> Document:
    """One run.

    Raises:
        NotFound: There is none of that id.
    """
    with organization.reading() as reader:
        return run_document(find_run(reader.connection, organization.id, id))


def latest_run(organization: Organization, entity_type: str, entity_id: str) -> Document:
    """The newest run of an entity.

    Raises:
        NotFound: There is none.
    """
    filters = RunFilters(entity_type=entity_type, entity_ids=(entity_id,))
    found = list_runs(organization, filters, Page(1))["data"]
    if not found:
        raise NotFound(f"integration run of {entity_type}", entity_id)
    first: Document = found[0]
    return first


def latest_runs(
    organization: Organization, entity_type: str, entity_ids: tuple[str, ...], page: Page
) -> Document:
    """The newest run of each of some entities, or of all; the first one's members stand beside them.

    The contract types the answer as one run although it takes several ids.

    Raises:
        NotFound: There is none: a page without entries is no run.
    """
    filters = RunFilters(entity_type=entity_type, entity_ids=entity_ids, latest=True)
    found = list_runs(organization, filters, page)
    if not found["data"]:
        raise NotFound("integration run of entity type", entity_type)
    return {**found["data"][0], **found}


def run_log(organization: Organization, id: str) -> Document:
    """What a run sent and got, try by try, without secrets: JSON in Base64, as the contract has it.

    Raises:
        NotFound: There is none of that id.
    """
    data = wire.dumps(run_history(organization, id))
    return {"Payload": base64.b64encode(data).decode()}


def run_history(organization: Organization, id: str) -> Document:
    """A run, its body, and its tries.

    Raises:
        NotFound: There is none of that id.
    """
    with organization.reading() as reader:
        run = find_run(reader.connection, organization.id, id)
        tries = tries_of(reader.connection, id)
    tried: list[dict[str, Any]] = []
    for each in tries:
        shown = {
            "number": each.number,
            "dtStarted": each.started,
            "dtCompleted": each.ended,
            "request": each.request,
            "statusCode": each.status_code,
            "response": each.response,
            "error": each.error,
        }
        tried.append({name: value for name, value in shown.items() if value is not None})
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


def ping_webhook(organization: Organization, author: str, id: str) -> Document:
    """Have a test delivery sent to a webhook, signed as all others; the run.

    Raises:
        NotFound: There is no such webhook.
        Conflict: It is not active.
    """
    with organization.transaction(author) as transaction:
        webhook = transaction.get(WebhookDestination, id)
        if not webhook.entity.active:
            raise Conflict(f"the webhook {id} is not active; set its `active` to true first")
        now = format_instant(transaction.now)
        data = {"id": id, "name": webhook.entity.name}
        content = RunContent(
            entity_type="Notification",
            entity_id=id,
            destination="WEBHOOK",
            destination_id=id,
            run_key=f"{PING} {uuid4()}",
            body=wire.dumps({"type": PING, "timestamp": now, "data": data}).decode(),
        )
        return _add(transaction, content)


def replay_run(organization: Organization, author: str, id: str) -> Document:
    """Send a run once more, as a new one; what is sent is what was sent.

    The run of a bill that is deleted takes it back.

    Raises:
        NotFound: There is no such run.
        Conflict: It has not ended.
    """
    with organization.transaction(author) as transaction:
        run = find_run(transaction.connection, organization.id, id)
        if run.job.status in {JobStatus.PENDING, JobStatus.RUNNING}:
            raise Conflict(
                f"the run {id} has not ended: it is {run.status.value}; try again when it has"
            )
        return _add(transaction, _as_it_stands(transaction, _repeat(run.id, run.content)))


def repeat_deletions(transaction: Transaction, config_id: str) -> None:
    """Take back what an integration was to take back while it was disabled."""
    column, again = INTEGRATION_RUN.c, INTEGRATION_RUN.alias("again")
    repeated = select(again.c.id).where(again.c.replayed_from == column.id)
    query = select(INTEGRATION_RUN).where(
        column.org == transaction.org_id,
        column.config_id == config_id,
        column.action == RunAction.DELETE.value,
        column.status == RunStatus.DISABLED.value,
        ~repeated.where(again.c.org == column.org).correlate(INTEGRATION_RUN).exists(),
    )
    rows = transaction.connection.execute(query.order_by(column.created, column.id))
    _new_runs(transaction).add([_repeat(row.id, _content_of(row)) for row in rows])


def replay_webhook(
    organization: Organization,
    author: str,
    id: str,
    since: datetime,
    statuses: Sequence[RunStatus] = (),
) -> dict[str, Any]:
    """Send all runs once more that were made for a webhook since an instant and have ended.

    Replays and tests are left out.

    Args:
        organization: The organization.
        author: Who wants it.
        id: The webhook.
        since: Runs that were made at this instant or later.
        statuses: Only runs that ended so; all if empty.

    Returns:
        How many `runs` there are.

    Raises:
        NotFound: There is no such webhook.
    """
    with organization.reading() as reader:
        reader.get(WebhookDestination, id)
    filters = RunFilters(destination_id=id, until=organization.now(), statuses=tuple(statuses))
    last, count = (since, ""), 0
    while True:
        with organization.transaction(author) as transaction:
            # Those that were made after the last one, the oldest first.
            column = INTEGRATION_RUN.c
            key = tuple_(literal(last[0], column.created.type), literal(last[1]))
            mine = (
                column.org == transaction.org_id,
                column.due.is_(None),
                tuple_(column.created, column.id) > key,
                *filters.conditions(organization.id),
            )
            query = select(INTEGRATION_RUN).where(*mine).order_by(column.created, column.id)
            found = list(transaction.connection.execute(query.limit(_CHUNK)))
            known = [(each.id, _content_of(each)) for each in found]
            contents = [
                _repeat(id_, content)
                for id_, content in known
                if content.replayed_from is None and not content.run_key.startswith(PING)
            ]
            _new_runs(transaction).add(contents)
        count += len(contents)
        if len(found) < _CHUNK:
            return {"runs": count}
        last = (found[-1].created, found[-1].id)


def _repeat(id: str, content: RunContent) -> RunContent:
    key = f"{content.original_key}{REPLAY_MARK}{uuid4()}"
    return replace(content, run_key=key, replayed_from=id)


def _as_it_stands(reader: Reader, content: RunContent) -> RunContent:
    """What is to be done with the bill of a run by now: one that is deleted is taken back."""
    if (
        content.entity_type != BILL
        or content.is_deletion
        or which_are_there(reader, [content.entity_id])
    ):
        return content
    key = f"{deletion_key(content.config_id, content.entity_id)}{REPLAY_MARK}{uuid4()}"
    return replace(content, action=RunAction.DELETE.value, event_id=None, run_key=key)


def _content_of(row: Row[Any]) -> RunContent:
    return RunContent(**{name: getattr(row, name) for name in RunContent.__slots__})


def _add(transaction: Transaction, content: RunContent) -> Document:
    [id_] = _new_runs(transaction).add([content])
    return run_document(find_run(transaction.connection, transaction.org_id, id_))


def _new_runs(transaction: Transaction) -> NewRuns:
    asked = (transaction.now, transaction.new_id, transaction.author)
    return NewRuns(transaction.connection, transaction.org_id, *asked)
