"""One transaction of the sender: what became of runs is written down, and the next are claimed."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection, select

from meterlake.model.configuration.integrations import (
    IntegrationConfig,
    RunStatus,
    WebhookDestination,
)
from meterlake.model.errors import MeterlakeError
from meterlake.model.resources.events import Event, data
from meterlake.model.values.entity import Record
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import format_instant
from meterlake.pipeline.integrations.connectors.connector import (
    DISABLED_EVENT,
    FAILURES,
    REFUSALS,
    Connector,
    Exchange,
    Failed,
    FailureKind,
    Outcome,
    Sent,
)
from meterlake.pipeline.integrations.destinations import Destinations
from meterlake.pipeline.integrations.life_cycle import write_letters
from meterlake.pipeline.integrations.retries import health_after, step_after
from meterlake.stores import Stores
from meterlake.stores.state import Transaction
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.state import new_id
from meterlake.stores.state.core.tables import ENTITY, ORGANIZATION
from meterlake.stores.state.integrations.health import (
    HEALTHY,
    Health,
    forget_refusals,
    health_of,
    refusing_destinations,
    troubled_destinations,
    write_health,
    write_refusal,
)
from meterlake.stores.state.integrations.queues import (
    ClaimedRun,
    DueQueue,
    RunStep,
    claim_runs,
    due_queues,
    renew_runs,
    return_runs,
    write_steps,
)

AUTHOR: Final = "INTEGRATIONS"
_log: Final = logging.getLogger("meterlake.worker")

# How many runs of each queue are claimed, of those that are due.
Sizes = Callable[[Mapping[str, DueQueue], Mapping[str, Health], datetime], dict[str, int]]


@dataclass(frozen=True, slots=True)
class Finished:
    """A try that was made.

    Attributes:
        is_health: Whether it shows how the destination is doing: one try of each call does.
    """

    run: ClaimedRun
    outcome: Outcome
    started: datetime
    ended: datetime
    is_health: bool = True


@dataclass(frozen=True, slots=True)
class SendableRun:
    """A run that can be sent."""

    run: ClaimedRun
    connector: Connector
    config: Record[IntegrationConfig] | None
    webhook: Record[WebhookDestination] | None
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrittenRuns:
    """What is to be written in one transaction.

    Attributes:
        finished: Tries that were made.
        returned: Runs that nobody tried.
        renewed: Runs that the sender goes on with.
    """

    finished: Sequence[Finished] = ()
    returned: Sequence[ClaimedRun] = ()
    renewed: Sequence[ClaimedRun] = ()

    def __bool__(self) -> bool:
        return bool(self.finished or self.returned or self.renewed)


class Bookkeeping:
    """Writes tries and claims runs.

    Args:
        stores: The home's stores.
        connectors: By the names of their systems.
        overlap: How long secrets sign that were replaced.
    """

    def __init__(
        self, stores: Stores, connectors: Mapping[str, Connector], overlap: timedelta
    ) -> None:
        self._stores = stores
        self._connectors = connectors
        self._overlap = overlap

    def turn(self, written: WrittenRuns, sizes: Sizes) -> list[SendableRun]:
        """Write, and claim the next runs; nothing is locked if there is nothing of both.

        Raises:
            Unavailable: State failed; nothing was written.
        """
        try:
            return self._turn(written, sizes)
        except MeterlakeError:
            raise
        except Exception:
            if not written.finished:
                raise
            # One of them is the reason: it ends alone.
            _log.exception("what became of %s runs", len(written.finished))
        for each in written.finished:
            self._write_alone(each)
        return self._turn(replace(written, finished=()), sizes)

    def _turn(self, written: WrittenRuns, sizes: Sizes) -> list[SendableRun]:
        state = self._stores.state
        if not written:
            with state.reading_home() as connection:
                if not self._sizes(connection, sizes):
                    return []
        with state.writing_home() as connection:
            now = self._stores.now()
            self._write_finished(connection, written.finished, now)
            return_runs(connection, written.returned, now)
            renew_runs(connection, written.renewed, now)
            claimed = claim_runs(connection, self._sizes(connection, sizes), now)
            prepared = self._prepare(connection, claimed, now)
        if claimed:
            mark_step("integrations.claimed")
        if written.finished:
            mark_step("integrations.written")
        return prepared

    def _write_alone(self, finished: Finished) -> None:
        """Write one try down; what cannot be written is an error of its run, which is not sent again."""
        for outcome in (finished.outcome, _NOT_STORABLE):
            try:
                with self._stores.state.writing_home() as connection:
                    one = replace(finished, outcome=outcome)
                    self._write_finished(connection, [one], self._stores.now())
            except MeterlakeError:
                raise
            except Exception:  # noqa: BLE001 - logged whole; its lease ends, and others go on
                _log.exception("the end of run %s", finished.run.id)
            else:
                return

    def _sizes(self, connection: Connection, sizes: Sizes) -> dict[str, int]:
        now = self._stores.now()
        due = due_queues(connection, now)
        return sizes(due, troubled_destinations(connection), now) if due else {}

    def _prepare(
        self, connection: Connection, claimed: Sequence[ClaimedRun], now: datetime
    ) -> list[SendableRun]:
        """What the runs need to be sent; those of which nothing can be sent end here."""
        troubled = troubled_destinations(connection)
        found = Destinations(connection, now, self._overlap, troubled)
        prepared, ended, faulty = [], [], []
        for run in claimed:
            connector = self._connectors.get(run.content.destination.upper())
            try:
                off = found.reason_not_to_send(run.org_id, run.content)
                if off is not None:
                    ended.append(RunStep(run=run, status=RunStatus.DISABLED, error=off))
                elif connector is None:
                    reason = f"no connector for {run.content.destination} is installed"
                    missing = Failed(kind=FailureKind.INVALID, error=reason)
                    faulty.append(Finished(run, missing, now, now))
                else:
                    webhook = found.webhook(run.org_id, run.content)
                    secrets = () if webhook is None else found.secrets(run.org_id, webhook)
                    ready = SendableRun(
                        run, connector, found.config(run.org_id, run.content), webhook, secrets
                    )
                    prepared.append(ready)
            except (DamagedRow, ValueError, TypeError, LookupError, AttributeError) as error:
                # Its row, or that of its destination, is damaged: others have nothing to do with it.
                _log.exception("run %s cannot be prepared", run.id)
                why = error if isinstance(error, DamagedRow) else type(error).__name__
                said = f"what the run needs cannot be read: {why}"
                failed = Finished(run, Failed(kind=FailureKind.INVALID, error=said), now, now)
                faulty.append(failed)
        write_steps(connection, ended, now)
        self._write_finished(connection, faulty, now)
        return prepared

    def _write_finished(
        self, connection: Connection, finished: Sequence[Finished], now: datetime
    ) -> None:
        steps = [step_after(each.run, each.outcome, each.started, each.ended) for each in finished]
        by_run = dict(zip((each.run.id for each in finished), finished, strict=True))
        kept = write_steps(connection, steps, now)
        by_org: defaultdict[str, list[RunStep]] = defaultdict(list)
        for step in kept:
            by_org[step.run.org_id].append(step)
        # In one order, so that two senders do not wait for each other.
        for org_id in sorted(by_org):
            events = [event for step in by_org[org_id] for event in _events(step, by_run, now)]
            disabled = _update_health(
                connection, org_id, [by_run[step.run.id] for step in by_org[org_id]]
            )
            _write_refusals(connection, org_id, [by_run[step.run.id] for step in by_org[org_id]])
            if events or disabled:
                # Write events, and switch off what is disabled, as any other writer of the
                # organization.
                locked = (
                    select(ORGANIZATION.c.id).where(ORGANIZATION.c.id == org_id).with_for_update()
                )
                connection.execute(locked)
                transaction = Transaction(connection, org_id, AUTHOR, self._stores.now(), new_id)
                for each in events:
                    transaction.journal.add(each)
                for run, health in disabled.values():
                    name = _disable(transaction, run, health)
                    # Before the commit: a letter that is written twice is better than none.
                    write_letters(
                        self._stores, transaction, run.content.queue, name, health.reason or ""
                    )
                transaction.finish()


# The end of a run of which nothing that came back can be written down: it may have arrived.
_NOT_STORABLE: Final = Failed(
    kind=FailureKind.REJECTED,
    error="what came back cannot be stored, see the log; whether it arrived, the receiver knows",
    exchange=Exchange(request="what was sent cannot be stored"),
)


def _update_health(
    connection: Connection, org_id: str, finished: Iterable[Finished]
) -> dict[str, tuple[ClaimedRun, Health]]:
    """Write down how destinations are doing; those that are disabled from now on, by id."""
    telling = (each for each in finished if each.is_health)
    ordered = sorted(telling, key=lambda each: (each.run.content.queue, each.ended))
    ids = {each.run.content.queue for each in ordered}
    known = health_of(connection, org_id, ids)
    disabled = {}
    for id_, tries in groupby(ordered, key=lambda each: each.run.content.queue):
        before = after = known.get(id_, HEALTHY)
        for each in tries:
            after = health_after(after, each.outcome, each.started, each.ended)
            if after.disabled is not None and before.disabled is None:
                disabled[id_] = (each.run, after)
                break
        if after != before:
            write_health(connection, org_id, id_, after)
    return disabled


def _write_refusals(connection: Connection, org_id: str, finished: Iterable[Finished]) -> None:
    """Write down which destinations refuse who calls, by the newest try of each that tells it."""
    newest: dict[str, Finished] = {}
    for each in sorted(finished, key=lambda each: each.ended):
        if isinstance(each.outcome, Sent) or each.outcome.kind in REFUSALS:
            newest[each.run.content.queue] = each
    known = refusing_destinations(connection, org_id, list(newest)) if newest else set()
    taken = {id_ for id_, each in newest.items() if isinstance(each.outcome, Sent)}
    if known & taken:
        forget_refusals(connection, org_id, known & taken)
    for id_ in newest.keys() - taken - known:
        write_refusal(connection, org_id, id_, newest[id_].started)


def _events(step: RunStep, by_run: Mapping[str, Finished], now: datetime) -> list[Event]:
    """The event of a run that ended without success."""
    outcome = by_run[step.run.id].outcome
    if step.due is not None or not isinstance(outcome, Failed):
        return []
    name = FAILURES[outcome.kind].event
    fields = {**_fields(step.run, outcome.error, now), **outcome.details}
    account_id = step.run.content.account_id
    return [Event(name, "IntegrationRun", step.run.id, data(fields, None), account_id)]


def _fields(run: ClaimedRun, message: str, now: datetime) -> dict[str, Any]:
    content = run.content
    fields = {
        "name": content.destination,
        "date": format_instant(now),
        "message": message,
        "integrationConfigId": content.config_id,
        "integrationRunId": run.id,
        "entityType": content.entity_type,
        "entityId": content.entity_id,
        "destination": content.destination,
        "destinationId": content.destination_id,
        "accountId": content.account_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _disable(transaction: Transaction, run: ClaimedRun, health: Health) -> str:
    """Switch off what a run went to, and tell of it; how people know it."""
    id_, kind = run.content.queue, "IntegrationConfig"
    fields = _fields(run, health.reason or "", transaction.now)
    for webhook in transaction.matching(WebhookDestination, ENTITY.c.id == id_):
        kind, fields["name"] = "WebhookDestination", webhook.entity.name
        if webhook.entity.active:
            off = webhook.entity.model_copy(update={"active": False})
            transaction.update(id_, webhook.version, off)
    transaction.journal.add(Event(DISABLED_EVENT, kind, id_, data(fields, None)))
    return str(fields["name"])
