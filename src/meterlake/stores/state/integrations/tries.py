"""Tries of runs: what was sent, what was answered, and what becomes of the run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, select, update

from meterlake.model.configuration.integrations import RunStatus
from meterlake.stores.state.core.many_rows import insert_rows
from meterlake.stores.state.integrations.queues import ClaimedRun, held_runs
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN, INTEGRATION_TRY
from meterlake.stores.state.jobs import JOB, JobStatus

_END_OF_JOB: Final = {
    RunStatus.COMPLETE: JobStatus.COMPLETE,
    RunStatus.DISABLED: JobStatus.CANCELLED,
}


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
        connection.execute(_RUNS, [_run_values(each) for each in kept])
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


def _run_values(step: RunStep) -> dict[str, Any]:
    return {
        "run_id": step.run.id,
        "new_status": step.status.value,
        "new_due": step.due,
        "new_external_id": step.external_id,
        "new_url": step.url,
    }


def _try_row(step: RunStep) -> dict[str, Any]:
    assert step.tried is not None
    facts = {name: getattr(step.tried, name) for name in RunTry.__slots__}
    return {"run_id": step.run.id, **facts}
