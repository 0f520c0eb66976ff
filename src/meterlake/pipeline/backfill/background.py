"""Backfills that are asked for over the API: each step is a job, which the worker runs.

A step (staging, applying, reverting) may take minutes. So it is written down and answered at once,
and the backfill says what is pending; its history says how each step ended.
"""

from enum import StrEnum
from typing import Final

from meterlake.model.errors import Conflict
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.backfill import Backfill, BackfillStatus
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.backfill.lifecycle import (
    Order,
    apply,
    note,
    note_failure,
    restart,
    revert,
    show,
)
from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.pipeline.jobs.job_spec import JobSpec, pin_newest_snapshot
from meterlake.pipeline.jobs.run_job import JobRun, run_job
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters, submit

KIND: Final = JobKind.BACKFILL
_OPEN_MAX: Final = 1_000


class BackfillAction(StrEnum):
    """What a job does with a backfill."""

    STAGE = "stage"
    APPLY = "apply"
    REVERT = "revert"


# Where a backfill stands after a step, and from where the step begins.
_DONE: Final = {
    BackfillAction.APPLY: BackfillStatus.APPLIED,
    BackfillAction.REVERT: BackfillStatus.REVERTED,
}
_FROM: Final = {
    BackfillAction.APPLY: BackfillStatus.STAGED,
    BackfillAction.REVERT: BackfillStatus.APPLIED,
}
_CLOSED: Final = (BackfillStatus.APPLIED, BackfillStatus.DROPPED, BackfillStatus.REVERTED)


def submit_start(organization: Organization, order: Order) -> Backfill:
    """Write a backfill down; a worker stages it. Safe to repeat with the same id.

    Raises:
        Invalid: What is wanted makes no sense.
        Conflict: The id belongs to a backfill of something else, or another step is pending.
        Busy: Another process works on it.
    """
    found = note(organization, order)
    if found.status not in _CLOSED:
        _submit(organization, found, BackfillAction.STAGE, order.author)
    return found


def submit_restart(organization: Organization, id: str, author: str) -> Backfill:
    """Have a backfill staged once more that is there already, also one that was reverted.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It is applied or dropped, or another step is pending.
    """
    found = show(organization, id)
    if found.status in (BackfillStatus.APPLIED, BackfillStatus.DROPPED):
        raise Conflict(
            f"backfill {id!r} is {found.status.value} and cannot be staged again; begin another one"
        )
    return _submit(organization, found, BackfillAction.STAGE, author)


def submit_step(organization: Organization, id: str, step: BackfillAction, author: str) -> Backfill:
    """Have a backfill applied or reverted; where that is done already, nothing is to be done.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It does not stand where the step begins, or another step is pending.
    """
    found = show(organization, id)
    _refuse_other(organization, found, step)
    if found.status is _DONE[step]:
        return found
    if found.status is not _FROM[step]:
        expected = _FROM[step].value
        raise Conflict(
            f"backfill {id!r} is {found.status.value}; only one that is {expected} can be"
            f" {_DONE[step].value.lower()}: wait until it is, or begin another one"
        )
    return _submit(organization, found, step, author)


def pending_steps(organization: Organization) -> dict[str, BackfillAction]:
    """The steps that wait or are under way, by the ids of their backfills."""
    open_jobs = JobFilters(statuses=(JobStatus.PENDING, JobStatus.RUNNING))
    jobs, _ = organization.state.jobs.page(organization.id, KIND, open_jobs, Page(_OPEN_MAX))
    return {job.parameters["backfill"]: BackfillAction(job.parameters["step"]) for job in jobs}


def _refuse_other(
    organization: Organization, found: Backfill, step: BackfillAction
) -> BackfillAction | None:
    """The step if it is pending already."""
    pending = pending_steps(organization).get(found.id)
    if pending not in (None, step):
        raise Conflict(
            f"backfill {found.id!r} has another step pending: {pending};"
            " try again when that has ended"
        )
    return pending


def _submit(
    organization: Organization, found: Backfill, step: BackfillAction, author: str
) -> Backfill:
    if _refuse_other(organization, found, step) is None:
        with organization.transaction(author) as transaction:
            job = Job(
                id=transaction.new_id(),
                org_id=found.org_id,
                kind=KIND,
                parameters={"backfill": found.id, "step": step.value},
                created=transaction.now,
                author=author,
            )
            submit(transaction.connection, job)
        mark_step("backfill.submitted")
    return found


def run_step(stores: Stores, job_id: str, stop: Stop = lambda: False) -> Backfill:
    """Run the job of a step to its end, also one whose executor died.

    Args:
        stores: The home's stores.
        job_id: The job.
        stop: Whether to stop before the end; the job then waits for the next worker.

    Raises:
        NotFound: There is no such job, or its backfill is gone.
        Conflict: The step could not be done; the backfill's history says why.
        MeterlakeError: As `run_job` does.
    """
    return run_job(stores, BACKFILL_STEPS, job_id, stop)


def _carry_out(run: JobRun[Backfill]) -> Backfill:
    stores, job = run.stores, run.job
    organization = stores.organization(job.org_id)
    id_, author = job.parameters["backfill"], job.author or KIND
    match BackfillAction(job.parameters["step"]):
        case BackfillAction.STAGE:
            return restart(organization, id_, author, run.check)
        case BackfillAction.APPLY:
            return apply(organization, id_, author, run.check)
        case BackfillAction.REVERT:
            return revert(organization, id_, author)


def _note_failure(stores: Stores, job: Job) -> None:
    organization = stores.organization(job.org_id)
    id_ = job.parameters["backfill"]
    # What could not be staged has said so itself.
    if show(organization, id_).status is not BackfillStatus.FAILED:
        note_failure(organization, id_, job.author or KIND, str(job.error))


def _describe(stores: Stores, job: Job) -> str:
    mode = show(stores.organization(job.org_id), job.parameters["backfill"]).spec.mode.value
    return f"{job.parameters['step']} {mode}"


BACKFILL_STEPS: Final = JobSpec(
    kinds=(KIND,),
    name="step of a backfill",
    work=_carry_out,
    flow="backfill_job",
    pin=pin_newest_snapshot,
    after_failure=_note_failure,
    describe=_describe,
    taken=lambda: mark_step("backfill.taken"),
    finished=lambda: mark_step("backfill.finished"),
)
