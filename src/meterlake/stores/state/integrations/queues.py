"""Runs that wait, by destination, and tries: who sends claims the next ones, renews and returns them.

All of this happens in a transaction that the caller has open.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Connection,
    CursorResult,
    Row,
    and_,
    bindparam,
    case,
    exists,
    func,
    literal,
    null,
    or_,
    select,
    text,
    tuple_,
    update,
)

from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import RunAction, RunStatus
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.many_rows import insert_rows
from meterlake.stores.state.core.tables import InstantText
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN, INTEGRATION_TRY
from meterlake.stores.state.integrations.runs import RunContent
from meterlake.stores.state.jobs import JOB, LEASES, JobStatus, begun, in_status, takeable

_CHUNK: Final = 400
_LEASE: Final = LEASES[JobKind.INTEGRATION_RUN]
# Looks at the first run of each queue alone, however many wait in one.
_DUE_QUEUES: Final = text("""
WITH RECURSIVE waiting(queue) AS (
  SELECT min(queue) FROM integration_run WHERE due IS NOT NULL
  UNION ALL
  SELECT (SELECT min(r.queue) FROM integration_run r
          WHERE r.due IS NOT NULL AND r.queue > waiting.queue)
  FROM waiting WHERE waiting.queue IS NOT NULL
)
SELECT run.queue, run.org, run.destination
FROM waiting JOIN integration_run run ON run.id = (
  SELECT r.id FROM integration_run r
  WHERE r.due IS NOT NULL AND r.queue = waiting.queue ORDER BY r.due LIMIT 1
)
WHERE run.due <= :now
ORDER BY run.queue
""").bindparams(bindparam("now", type_=InstantText))
_NOW: Final = bindparam("now", type_=InstantText)
_RUN, _OTHER = INTEGRATION_RUN.c, INTEGRATION_RUN.alias("other").c
# Another run of the same bill is sent, or comes first: two at once would make two invoices of it.
# A bill that was deleted and made again is the same one; the old one is taken back first. So what
# sends waits for what deletes also while that waits for its next try.
_SAME_BILL: Final = (
    *(_OTHER[name] == _RUN[name] for name in ("org", "entity_type", "subject", "queue")),
    _OTHER.id != _RUN.id,
)
_IS_DELETED_FIRST: Final = and_(
    _RUN.action != RunAction.DELETE.value,
    _OTHER.action == RunAction.DELETE.value,
    _OTHER.due.is_not(None),
)
_WAITS_FOR_OTHER: Final = exists().where(
    *_SAME_BILL,
    or_(
        and_(_OTHER.status == RunStatus.STARTED.value, _OTHER.due > _NOW),
        _IS_DELETED_FIRST,
        and_(
            _OTHER.due <= _NOW,
            _OTHER.action == _RUN.action,
            tuple_(_OTHER.due, _OTHER.id) < tuple_(_RUN.due, _RUN.id),
        ),
    ),
)
# When the deletion is tried again; one that is being sent may end at any moment.
_DELETION_DUE: Final = select(
    func.min(case((_OTHER.status == RunStatus.STARTED.value, _NOW), else_=_OTHER.due))
).where(*_SAME_BILL, _IS_DELETED_FIRST)
# They are not looked at again before that: a queue of nothing else has nothing due.
_WAITING_LONG: Final = (
    select(_RUN.id, _DELETION_DUE.scalar_subquery().label("due"))
    .where(
        _RUN.queue == bindparam("queue"),
        _RUN.due <= _NOW,
        _RUN.entity_type == BILL,
        _RUN.status != RunStatus.STARTED.value,
        _DELETION_DUE.scalar_subquery() > _NOW,
    )
    .with_for_update(skip_locked=True)
)
_NEXT: Final = (
    select(_RUN.id)
    .where(
        _RUN.queue == bindparam("queue"),
        _RUN.due.is_not(None),
        _RUN.due <= _NOW,
        or_(_RUN.entity_type != BILL, ~_WAITS_FOR_OTHER),
    )
    .order_by(_RUN.due)
    .limit(bindparam("size"))
)
_MINE: Final = (
    JOB.c.id == bindparam("job_id"),
    JOB.c.attempt == bindparam("job_attempt"),
    JOB.c.status == JobStatus.RUNNING.value,
)
_END_OF_JOB: Final = {
    RunStatus.COMPLETE: JobStatus.COMPLETE,
    RunStatus.DISABLED: JobStatus.CANCELLED,
}


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run that one sender has until its lease ends.

    Attributes:
        attempt: The fencing token of the job.
        content: What it is about.
        before: The status that it had.
        tries: How many tries were made.
    """

    id: str
    org_id: str
    attempt: int
    content: RunContent
    before: RunStatus
    tries: int


class DueQueue(NamedTuple):
    """Whose the runs of a queue are, and the system that they are for."""

    org_id: str
    destination: str


def due_queues(connection: Connection, now: datetime) -> dict[str, DueQueue]:
    """The queues in which a run is due, in the order of their names."""
    rows = connection.execute(_DUE_QUEUES, {"now": now})
    return {row.queue: DueQueue(row.org, row.destination) for row in rows}


def claim_runs(connection: Connection, sizes: Mapping[str, int], now: datetime) -> list[ClaimedRun]:
    """Claim runs that are due, those that have waited longest.

    Args:
        connection: Of a transaction that writes.
        sizes: How many of each queue, at most.
        now: Where the leases begin.
    """
    ids = [id_ for queue, size in sizes.items() for id_ in _next_ids(connection, queue, size, now)]
    found: list[ClaimedRun] = []
    for some in _chunks(ids):
        attempts = _begin_attempts(connection, some, now)
        rows = {
            row.id: row
            for row in connection.execute(
                select(INTEGRATION_RUN).where(INTEGRATION_RUN.c.id.in_(list(attempts)))
            )
        }
        values = {"status": RunStatus.STARTED.value, "due": now + _LEASE}
        started = update(INTEGRATION_RUN).where(INTEGRATION_RUN.c.id.in_(list(attempts)))
        connection.execute(started.values(values))
        _skip(connection, set(some) - attempts.keys(), now)
        again = [id_ for id_, attempt in attempts.items() if attempt > 1]
        tries = _count_tries(connection, again)
        found += (_claimed(rows[id_], attempts[id_], tries.get(id_, 0)) for id_ in attempts)
    order = {id_: number for number, id_ in enumerate(ids)}
    return sorted(found, key=lambda run: order[run.id])


def renew_runs(connection: Connection, runs: Sequence[ClaimedRun], now: datetime) -> None:
    """Say that the sender still has runs."""
    if runs:
        until = {"lease_until": now + _LEASE}
        connection.execute(update(JOB).where(*_MINE).values(until), _keys(runs))
        due = update(INTEGRATION_RUN).values(due=now + _LEASE)
        for some in _chunks([run.id for run in runs]):
            connection.execute(due.where(INTEGRATION_RUN.c.id.in_(some)))


def return_runs(connection: Connection, runs: Sequence[ClaimedRun], now: datetime) -> None:
    """Have runs wait as before: nothing was tried."""
    mine = held_runs(connection, runs)
    if mine:
        waits = {"status": JobStatus.PENDING.value, "lease_until": None, "not_before": now}
        connection.execute(update(JOB).where(*_MINE).values(waits), _keys(mine))
        back = update(INTEGRATION_RUN).where(INTEGRATION_RUN.c.id == bindparam("run_id"))
        rows = [{"run_id": run.id, "before": run.before.value} for run in mine]
        connection.execute(back.values(status=bindparam("before"), due=now), rows)


def held_runs(connection: Connection, runs: Iterable[ClaimedRun]) -> list[ClaimedRun]:
    """Those of some runs that nobody else has taken meanwhile, and nobody has ended."""
    found: set[tuple[str, int]] = set()
    runs = list(runs)
    for some in _chunks([run.id for run in runs]):
        query = select(JOB.c.id, JOB.c.attempt).where(
            JOB.c.id.in_(some), JOB.c.status == JobStatus.RUNNING.value
        )
        found.update((row.id, row.attempt) for row in connection.execute(query.with_for_update()))
    return [run for run in runs if (run.id, run.attempt) in found]


def _next_ids(connection: Connection, queue: str, size: int, now: datetime) -> list[str]:
    values = {"queue": queue, "size": size, "now": now}
    found = list(connection.execute(_NEXT, values).scalars())
    if not found:
        waiting = connection.execute(_WAITING_LONG, {"queue": queue, "now": now}).all()
        if waiting:
            later = update(INTEGRATION_RUN).where(INTEGRATION_RUN.c.id == bindparam("run_id"))
            rows = [{"run_id": row.id, "until": row.due} for row in waiting]
            connection.execute(later.values(due=bindparam("until")), rows)
    return found


def _begin_attempts(connection: Connection, ids: list[str], now: datetime) -> dict[str, int]:
    query = update(JOB).where(JOB.c.id.in_(ids), takeable(now)).values(begun(now, _LEASE))
    rows: CursorResult[Any] = connection.execute(query.returning(JOB.c.id, JOB.c.attempt))
    found = {row.id: row.attempt for row in rows}
    # The database returns them in any order.
    return {id_: found[id_] for id_ in ids if id_ in found}


def _skip(connection: Connection, ids: Collection[str], now: datetime) -> None:
    """Look at runs again when their jobs can be taken; never, if those have ended."""
    if not ids:
        return
    later = func.coalesce(JOB.c.lease_until, JOB.c.not_before, literal(now + _LEASE, InstantText()))
    unfinished = in_status(JobStatus.PENDING, JobStatus.RUNNING)
    due = select(case((unfinished, later), else_=null())).where(JOB.c.id == INTEGRATION_RUN.c.id)
    query = update(INTEGRATION_RUN).where(INTEGRATION_RUN.c.id.in_(ids))
    connection.execute(query.values(due=due.scalar_subquery()))


def _count_tries(connection: Connection, ids: list[str]) -> dict[str, int]:
    if not ids:
        return {}
    column = INTEGRATION_TRY.c
    query = select(column.run_id, func.max(column.number).label("tries"))
    query = query.where(column.run_id.in_(ids)).group_by(column.run_id)
    return {row.run_id: row.tries for row in connection.execute(query)}


def _claimed(row: Row[Any], attempt: int, tries: int) -> ClaimedRun:
    content = RunContent(**{name: getattr(row, name) for name in RunContent.__slots__})
    return ClaimedRun(row.id, row.org, attempt, content, RunStatus(row.status), tries)


def _keys(runs: Iterable[ClaimedRun]) -> list[dict[str, Any]]:
    return [{"job_id": run.id, "job_attempt": run.attempt} for run in runs]


def _chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTry:
    """One try, as it is stored.

    Attributes:
        number: The first one of a run is 1.
        request: What was sent, without secrets.
        response: The beginning of the answer.
    """

    number: int
    started: datetime
    ended: datetime | None = None
    request: str = ""
    status_code: int | None = None
    response: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStep:
    """What becomes of a claimed run.

    Attributes:
        due: When the next try is due; None if there is none: the run has ended.
        tried: The try; None if the run ends without one.
        error: Why the run ended without success, or why it is tried again.
    """

    run: ClaimedRun
    status: RunStatus
    due: datetime | None = None
    tried: RunTry | None = None
    error: str | None = None
    external_id: str | None = None
    url: str | None = None


def write_steps(connection: Connection, steps: Sequence[RunStep], now: datetime) -> list[RunStep]:
    """Write down what became of runs, in a transaction that the caller has open.

    Returns:
        Those that counted: of the others somebody else has the run, or has ended it.
    """
    held = {(run.id, run.attempt) for run in held_runs(connection, (each.run for each in steps))}
    kept = [each for each in steps if (each.run.id, each.run.attempt) in held]
    if kept:
        tried = [each for each in kept if each.tried is not None]
        insert_rows(connection, INTEGRATION_TRY, [_try_row(each) for each in tried])
        connection.execute(_JOBS, [_job_values(each, now) for each in kept])
        connection.execute(
            _RUNS,
            [
                {
                    "run_id": each.run.id,
                    "new_status": each.status.value,
                    "new_due": each.due,
                    "new_external_id": each.external_id,
                    "new_url": each.url,
                }
                for each in kept
            ],
        )
    return kept


def tries_of(connection: Connection, run_id: str) -> list[RunTry]:
    """All tries of a run, the first one first."""
    query = select(INTEGRATION_TRY).where(INTEGRATION_TRY.c.run_id == run_id)
    rows = connection.execute(query.order_by(INTEGRATION_TRY.c.number))
    return [RunTry(**{name: getattr(row, name) for name in RunTry.__slots__}) for row in rows]


_JOBS: Final = (
    update(JOB)
    .where(JOB.c.id == bindparam("job_id"))
    .values(
        status=bindparam("new_status"),
        not_before=bindparam("new_not_before"),
        finished=bindparam("new_finished"),
        error=bindparam("new_error"),
        lease_until=None,
        version=JOB.c.version + 1,
    )
)
_RUNS: Final = (
    update(INTEGRATION_RUN)
    .where(INTEGRATION_RUN.c.id == bindparam("run_id"))
    .values(
        status=bindparam("new_status"),
        due=bindparam("new_due"),
        external_id=bindparam("new_external_id"),
        url=bindparam("new_url"),
    )
)


def _job_values(step: RunStep, now: datetime) -> dict[str, Any]:
    ended = _END_OF_JOB.get(step.status, JobStatus.FAILED)
    return {
        "job_id": step.run.id,
        "new_status": (ended if step.due is None else JobStatus.PENDING).value,
        "new_not_before": step.due,
        "new_finished": now if step.due is None else None,
        "new_error": step.error,
    }


def _try_row(step: RunStep) -> dict[str, Any]:
    assert step.tried is not None
    facts = {name: getattr(step.tried, name) for name in RunTry.__slots__}
    return {"run_id": step.run.id, **facts}
