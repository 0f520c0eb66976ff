"""Buckets of accounts whose bills are made at once: each is a task of a fan-out.

A task is told the job, its attempt and the number of the bucket. It reads what the bills depend on
by itself, and stores them. If the configuration has changed since the run read it, the task makes
nothing: the run itself makes that bucket, as all bills of a run have one configuration.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Busy, StaleVersion
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.jobs import FanOutRunner
from meterlake.pipeline.billing.calculation.reading import BUCKET, BillReading, read_bills
from meterlake.pipeline.billing.run import BillResult, BillRun, RunWatch, make_bucket
from meterlake.pipeline.jobs.attempt import Cancelled, GivenUp
from meterlake.pipeline.usage.garbage import rare_garbage_searches
from meterlake.stages.bill import selections_of
from meterlake.stores import Stores
from meterlake.stores.fan_out import FanOutTask, TaskEnd, run_tasks
from meterlake.stores.state import Job, Transaction
from meterlake.stores.state.core.account_names import count_accounts
from meterlake.stores.state.core.reader import DamagedRow

# Each bucket scans the lake: smaller ones cost more than they bring.
_LEAST: Final = 1000
# These are about the job: no bucket of it is of any use any more.
_OF_THE_JOB: Final = (Cancelled, GivenUp, StaleVersion, Busy)


@dataclass(frozen=True, slots=True)
class BucketReference:
    """Which bucket of accounts of a bill job is meant.

    Attributes:
        attempt: The job's: bills of an older one are not stored.
        mark: What tells the configuration that the run has.
    """

    job_id: str
    attempt: int
    number: int
    size: int
    mark: int


@dataclass(frozen=True, slots=True)
class BucketEnd:
    """What the bills of a bucket came to.

    Attributes:
        contended: The accounts whose bills could not be stored.
        due: How many bills were due.
        done: How many are stored, or refused.
    """

    result: BillResult
    contended: set[str]
    due: int
    done: int


class _BucketWatch(RunWatch):
    """Counts bills; stores none of them for a job that another attempt has, or that is to stop."""

    def __init__(self, job: Job, attempt: int) -> None:
        self._lease = replace(job.lease, attempt=attempt)
        self._job = job
        self.due = 0
        self.done = 0

    def begin(self, bills: int, more: int = 0) -> None:
        del more
        self.due += bills

    def store(self, transaction: Transaction, bills: int) -> None:
        del bills
        if self._lease.renew(transaction.connection, transaction.now):
            raise Cancelled(self._job.kind, self._job.id)

    def note_done(self, bills: int) -> None:
        self.done += bills


def make_referenced_bucket(stores: Stores, bucket: BucketReference) -> BucketEnd | None:
    """Make the bills of a bucket of a job; None if the run itself is to make it.

    So it does if the configuration has changed since, or a row is damaged: it leaves out whose row
    that is.

    Raises:
        Cancelled: The job is to stop.
        StaleVersion: Another attempt has the job.
        Unavailable: A store failed.
    """
    job = stores.state.jobs.get(bucket.job_id)
    organization = stores.organization(job.org_id)
    order = BillOrder.from_wire(job.parameters)
    with organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
    [selection] = selections_of(order, record.entity)
    watch = _BucketWatch(job, bucket.attempt)
    status = BillStatus.APPROVED if order.approve else BillStatus.PENDING
    keep = order.leaves_approved
    run = BillRun(organization, selection, job.author or SYSTEM, status, keep, watch)
    assert job.snapshot is not None
    with rare_garbage_searches():
        try:
            reading = read_bills(organization, selection, job.snapshot, bucket.size, bucket.number)
            if reading.mark != bucket.mark:
                return None
            result = BillResult(selection.days, job.id, job.snapshot)
            contended = make_bucket(run, reading, bucket.number, result)
        except DamagedRow:
            return None
    mark_step("bill.bucket_done")
    return BucketEnd(result, contended, watch.due, watch.done)


@dataclass(frozen=True, slots=True)
class TaskBuckets:
    """Makes the buckets of a job by tasks of a fan-out."""

    runner: FanOutRunner
    job: Job

    def bucket_size(self, run: BillRun) -> int:
        """As many accounts that all workers have some, but not too few of them."""
        ids = run.selection.account_ids
        with run.organization.reading() as reader:
            accounts = count_accounts(reader) if ids is None else len(ids)
        shares = -(-accounts // run.organization.settings.runner_workers)
        return min(max(shares, _LEAST), BUCKET)

    def make(self, run: BillRun, reading: BillReading, result: BillResult) -> set[str]:
        """Make the bills of all buckets, and answer the accounts whose bills could not be stored.

        Raises:
            Cancelled, GivenUp, StaleVersion, Busy: The job is to stop.
            TasksFailed: Some buckets failed; they are named, and the bills of the others stored.
            Unavailable: A store failed, or what carries the tasks.
            DamagedRow: A row of an account cannot be read; all other buckets are done.
        """
        run.watch.begin(0, reading.count_accounts())
        buckets = reading.accounts.buckets
        size = len(buckets[0].account_ids)
        assert reading.mark is not None
        tasks = [
            FanOutTask(
                f"bucket {number + 1} of {len(buckets)} of {run.organization.code}",
                make_referenced_bucket,
                (BucketReference(self.job.id, self.job.attempt, number, size, reading.mark),),
            )
            for number in range(len(buckets))
        ]
        note = partial(_note_end, run, _Left(reading.count_accounts()))
        ends = run_tasks(run.organization.stores, self.runner, tasks, note)
        contended: set[str] = set()
        for end in filter(None, ends):
            result.bills.extend(end.result.bills)
            result.failures.extend(end.result.failures)
            result.unpriced.extend(end.result.unpriced)
            result.without.extend(end.result.without)
            result.affected.extend(end.result.affected)
            contended |= end.contended
        # What raises here finds the bills of all others in the result.
        for number in (number for number, end in enumerate(ends) if end is None):
            contended |= make_bucket(run, reading, number, result)
        return contended


@dataclass(slots=True)
class _Left:
    """How many bills are expected of buckets that have not ended."""

    accounts: int


def _note_end(run: BillRun, left: _Left, end: TaskEnd) -> None:
    """Count the bills of a bucket, and hear whether the job is to stop."""
    if isinstance(end.error, _OF_THE_JOB):
        raise end.error
    found: Any = end.value
    if isinstance(found, BucketEnd):
        left.accounts = max(left.accounts - found.due, 0)
        run.watch.begin(found.due, left.accounts)
        run.watch.note_done(found.done)
