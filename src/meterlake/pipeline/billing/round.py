"""One look at the bill jobs of an organization that wait."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from meterlake.model.bill_jobs import KIND
from meterlake.model.errors import Busy, MeterlakeError, StaleVersion, Unavailable
from meterlake.model.receipt import Receipt
from meterlake.pipeline.billing.approval import approve_due
from meterlake.pipeline.billing.bill_job_documents import job_document
from meterlake.pipeline.billing.jobs import run_bill_job
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.billing.schedule import submit_scheduled
from meterlake.pipeline.jobs.runner import Runner
from meterlake.pipeline.jobs.turns import Stop
from meterlake.pipeline.jobs.waiting import run_waiting
from meterlake.stores import Stores
from meterlake.stores.state import Job

_LOGGED_MAX: Final = 20
_log: Final = logging.getLogger("meterlake.worker")


def bill_round(runner: Runner, stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    """Run the jobs that wait, the oldest first, as the worker does.

    Args:
        runner: Runs each, as a flow run where it can; when it ends, a job is left in order.
        stores: The home's stores.
        org_id: The organization.
        stop: Whether to begin no other job.

    Raises:
        Unavailable: A store failed; what waits is run later.
    """

    def run(job: Job) -> None:
        runner.run(KIND, _parameters(stores, job), partial(_directly, stores, job, runner.ends))

    def describe(job: Job) -> str:
        return f"bill job {job.id}"

    def note(job: Job) -> None:
        _log_failures(stores.state.jobs.get(job.id))

    run_waiting(stores, stores.state.jobs.waiting(org_id, KIND), stop, run, describe, note)
    return ()


@dataclass(frozen=True, slots=True)
class BillRound:
    """What a whole round did.

    Attributes:
        due: How many jobs the schedule made.
        jobs: How many jobs ran.
        approved: How many bills approved themselves.
        failures: Why a job came to nothing, and which accounts could not be billed.
    """

    due: int
    jobs: int
    approved: int
    failures: list[str]


def whole_bill_round(
    stores: Stores, org_id: str, note: Callable[[BillResult], None] = lambda _: None
) -> BillRound:
    """All that the worker does for bills, where there is no worker, one after the other.

    Args:
        stores: The home's stores.
        org_id: The organization.
        note: Gets what each job came to.

    Raises:
        Unavailable: A store failed; what waits is run later.
    """
    due = submit_scheduled(stores, org_id) is not None
    failures, ran = [], 0
    for job in stores.state.jobs.waiting(org_id, KIND):
        try:
            found = run_bill_job(stores, job.id)
        except (Busy, StaleVersion):
            continue  # Another process runs it, or took it over.
        except Unavailable:
            raise
        except MeterlakeError as error:
            failures.append(f"bill job {job.id}: {error}")
        else:
            failures += [f"account {each.account_code}: {each.reason}" for each in found.failures]
            note(found)
        ran += 1
    return BillRound(due, ran, approve_due(stores, org_id), failures)


def _log_failures(job: Job) -> None:
    """Log which accounts a job could not bill."""
    failed = job.result.get("failed", ())
    for account, reason in failed[:_LOGGED_MAX]:
        _log.warning("bill job %s: account %s: %s", job.id, account, reason)
    if len(failed) > _LOGGED_MAX:
        _log.warning("bill job %s: and %s more accounts", job.id, len(failed) - _LOGGED_MAX)


def describe_job(job: Job) -> str:
    """How people know a job: what it makes, and of which date."""
    shown = job_document(job)
    if count := len(shown.get("billIds", ())):
        return f"recalculate {count} bill{'s' if count > 1 else ''}"
    parts: list[Any] = [shown.get("billingFrequency", "").lower(), shown.get("billDate", "")]
    return " ".join(["bill", *(str(each) for each in parts if each)])


def _parameters(stores: Stores, job: Job) -> dict[str, str]:
    code = stores.state.organization(job.org_id).code
    return {"org": code, "job": job.id, "name": describe_job(job)}


def _directly(stores: Stores, job: Job, leave: Stop) -> Iterable[Receipt]:
    run_bill_job(stores, job.id, leave)
    return ()
