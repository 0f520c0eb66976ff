"""All that the worker does for the bills of an organization, where there is no worker."""

from collections.abc import Callable
from dataclasses import dataclass

from meterlake.pipeline.billing.jobs.approval import approve_due
from meterlake.pipeline.billing.jobs.jobs import BILL_JOBS
from meterlake.pipeline.billing.jobs.schedule import submit_scheduled
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.jobs.waiting import run_all_waiting
from meterlake.stores import Organization


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
    organization: Organization, note: Callable[[BillResult], None] = lambda _: None
) -> BillRound:
    """All that the worker does for bills, where there is no worker, one after the other.

    Args:
        organization: The organization.
        note: Gets what each job came to.

    Raises:
        Unavailable: A store failed; what waits is run later.
    """
    due = submit_scheduled(organization) is not None
    failures, ran = [], 0
    for each in run_all_waiting(organization, BILL_JOBS):
        if each.error is not None and each.waits:
            raise each.error
        if each.error is not None:
            failures.append(f"bill job {each.job.id}: {each.error}")
        if each.result is not None:
            found = each.result.failures
            failures += [f"account {one.account_code}: {one.reason}" for one in found]
            note(each.result)
        ran += 1
    return BillRound(due, ran, approve_due(organization), failures)
