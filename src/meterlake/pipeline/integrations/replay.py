"""Runs that people ask for: a test of a webhook, and runs that are sent once more."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Row, literal, select, tuple_

from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import RunAction, RunStatus, WebhookDestination
from meterlake.model.errors import Conflict
from meterlake.model.values import wire
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.integrations.runs import run_document
from meterlake.stores import Stores
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills.versions import which_are_there
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN
from meterlake.stores.state.integrations.runs import (
    REPLAY_MARK,
    NewRuns,
    RunContent,
    RunFilters,
    deletion_key,
    find_run,
)
from meterlake.stores.state.jobs import JobStatus

PING: Final = "webhook.ping"
# Runs of one transaction: other writers wait for no more.
_CHUNK: Final = 1_000


def ping_webhook(stores: Stores, org_id: str, author: str, id: str) -> Document:
    """Have a test delivery sent to a webhook, signed as all others; the run.

    Raises:
        NotFound: There is no such webhook.
        Conflict: It is not active.
    """
    with stores.state.transaction(org_id, author) as transaction:
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


def replay_run(stores: Stores, org_id: str, author: str, id: str) -> Document:
    """Send a run once more, as a new one; what is sent is what was sent.

    The run of a bill that is deleted takes it back.

    Raises:
        NotFound: There is no such run.
        Conflict: It has not ended.
    """
    with stores.state.transaction(org_id, author) as transaction:
        run = find_run(transaction.connection, org_id, id)
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
    stores: Stores,
    org_id: str,
    author: str,
    id: str,
    since: datetime,
    statuses: Sequence[RunStatus] = (),
) -> dict[str, Any]:
    """Send all runs once more that were made for a webhook since an instant and have ended.

    Replays and tests are left out.

    Args:
        stores: The home's stores.
        org_id: The organization.
        author: Who wants it.
        id: The webhook.
        since: Runs that were made at this instant or later.
        statuses: Only runs that ended so; all if empty.

    Returns:
        How many `runs` there are.

    Raises:
        NotFound: There is no such webhook.
    """
    with stores.state.reading(org_id) as reader:
        reader.get(WebhookDestination, id)
    until, last, count = stores.now(), (since, ""), 0
    while True:
        with stores.state.transaction(org_id, author) as transaction:
            found = _ended_runs(transaction, id, last, until, statuses)
            known = [(each.id, _content_of(each)) for each in found]
            contents = [_repeat(*each) for each in known if _is_original(each[1])]
            _new_runs(transaction).add(contents)
        count += len(contents)
        if len(found) < _CHUNK:
            return {"runs": count}
        last = (found[-1].created, found[-1].id)


def _ended_runs(
    reader: Reader,
    webhook_id: str,
    last: tuple[datetime, str],
    until: datetime,
    statuses: Sequence[RunStatus],
) -> list[Row[Any]]:
    """Some runs of a webhook that were made after the last one, the oldest first."""
    column = INTEGRATION_RUN.c
    after = tuple_(column.created, column.id) > tuple_(
        literal(last[0], column.created.type), literal(last[1])
    )
    filters = RunFilters(destination_id=webhook_id, until=until, statuses=tuple(statuses))
    mine = (column.org == reader.org_id, column.due.is_(None), after, *filters.conditions())
    query = select(INTEGRATION_RUN).where(*mine).order_by(column.created, column.id)
    return list(reader.connection.execute(query.limit(_CHUNK)))


def _is_original(content: RunContent) -> bool:
    return content.replayed_from is None and not content.run_key.startswith(PING)


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
