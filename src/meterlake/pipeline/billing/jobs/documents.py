"""Bill jobs as the API and events show them, and as scheduled events read them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any, Final

from sqlalchemy import select

from meterlake.model.bills.jobs import BillJobType, BillOrder
from meterlake.model.errors import Required
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.events.scheduled import CurrentEntity
from meterlake.stores.state import Job, JobStatus, Reader
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.jobs.jobs import job_of
from meterlake.stores.state.jobs.table import JOB

TOTAL: Final = "total"
PENDING: Final = "pending"
# The member of the result with the ids of accounts whose bills do not approve themselves.
HELD: Final = "held"
# Why a job made no bill, or not all that were due, in words.
MESSAGE: Final = "message"
# More bills are listed by their job.
BILLS_MAX: Final = 1000
_FAILURES_MAX: Final = 100
_REASONS_MAX: Final = 5
_INITIALIZING: Final = "INITIALIZING"
_RUNNING: Final = "RUNNING"
# A job that failed came to nothing either; its `error` says why.
STATUSES: Final = {
    "PENDING": (JobStatus.PENDING,),
    _INITIALIZING: (JobStatus.RUNNING,),
    _RUNNING: (JobStatus.RUNNING,),
    "COMPLETE": (JobStatus.COMPLETE,),
    "CANCELLED": (JobStatus.CANCELLED, JobStatus.FAILED),
}
_OUTCOMES: Final = {
    JobStatus.COMPLETE: "COMPLETE",
    JobStatus.FAILED: "FAILED",
    JobStatus.CANCELLED: "CANCELLED",
}
# Of the statuses that are one to State: whether the bills of the job are counted.
COUNTED: Final = {_INITIALIZING: False, _RUNNING: True}


def outcome_of(job: Job) -> str | None:
    """How a job of bills ended, in a word; None as long as it has not ended.

    The published statuses have none for a job that billed some customers and could not bill others.
    """
    if job.status is JobStatus.COMPLETE and job.result.get("failed"):
        return "FAILED" if job.result.get("billIds") == [] else "PARTLY_FAILED"
    return _OUTCOMES.get(job.status)


def job_document(job: Job) -> dict[str, Any]:
    """A job as `BillJobResponse`, with why it came to nothing and who could not be billed."""
    failed = job.result.get("failed", ())
    modified = job.finished or job.started or job.created
    if job.status is JobStatus.RUNNING:
        status = _RUNNING if TOTAL in job.progress else _INITIALIZING
    else:
        status = next(name for name, statuses in STATUSES.items() if job.status in statuses)
    found = {
        **_order(job),
        "id": job.id,
        "version": job.version,
        "status": status,
        "outcome": outcome_of(job),
        **{name: job.progress.get(name) for name in (TOTAL, PENDING)},
        "error": job.error,
        MESSAGE: job.result.get(MESSAGE),
        "failures": [
            {"account": account, "reason": reason} for account, reason in failed[:_FAILURES_MAX]
        ],
        "failureCount": len(failed) or None,
        "createdBy": job.author,
        "dtCreated": job.created,
        "lastModifiedBy": job.author,
        "dtLastModified": modified,
    }
    return {name: value for name, value in found.items() if value not in (None, [])}


def describe_missing_bills(
    result: BillResult, chosen: Iterable[str], bill_date: date | None
) -> str | None:
    """Why a job made no bill, or left out accounts; None if there is nothing to say.

    Args:
        result: What the job came to.
        chosen: The codes of the accounts that it was for; none if it was for all.
        bill_date: The date of the bills, if the job named one.
    """
    reasons = {each.account_code: each.reason for each in result.failures}
    if any(each.stored is not BillOutcome.LOCKED for each in result.bills):
        return f"Not billed: {_list_reasons(reasons)}" if reasons else None
    reasons |= {each.account_code: "its bill is locked" for each in result.bills}
    for each in result.without:
        reasons.setdefault(each.account_code, each.reason)
    of_date = "" if bill_date is None else f" of {bill_date}"
    for code in sorted(chosen):
        reasons.setdefault(code, f"it is on no plan that has a bill{of_date}")
    if not reasons:
        return f"No bill was made: no account is on a plan that has a bill{of_date}"
    return f"No bill was made: {_list_reasons(reasons)}"


def _list_reasons(reasons: Mapping[str, str]) -> str:
    shown = [f"{code}: {reason}" for code, reason in islice(reasons.items(), _REASONS_MAX)]
    more = len(reasons) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _order(job: Job) -> dict[str, Any]:
    try:
        order = BillOrder.from_wire(job.parameters)
    except Required:  # Of an older version.
        return {"type": BillJobType.CREATE.value}
    ids = job.result.get("billIds", ()) if job.result else order.bill_ids
    return {
        **order.request.to_wire(),
        "type": order.type.value,
        "accountIds": list(order.chosen_accounts or ()),
        "billIds": list(ids) if len(ids) <= BILLS_MAX else None,
    }


class BillJobSource:
    """Reads bill jobs."""

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        """The next ids in the order of ids."""
        query = select(JOB.c.id).where(
            JOB.c.org == reader.org_id, JOB.c.kind == JobKind.BILL.value, JOB.c.id > last_id
        )
        return list(reader.connection.execute(query.order_by(JOB.c.id).limit(most)).scalars())

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        """Those that there are of some, by id."""
        found: dict[str, CurrentEntity] = {}
        for some in chunks_of(ids):
            query = select(JOB).where(JOB.c.org == reader.org_id, JOB.c.id.in_(some))
            for row in reader.connection.execute(query):
                found[row.id] = CurrentEntity("BillJob", None, job_document(job_of(row)))
        return found
