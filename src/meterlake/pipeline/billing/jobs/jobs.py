"""Bill jobs: asked for over the API, by a schedule or on the command line, and run by one engine.

A job pins the snapshot of the lake at its first attempt. Its bills are stored batch by batch, and
how far it is goes into the same transactions. Whoever runs it again after a crash makes the same
bills: those that are stored already come out unchanged.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from meterlake.model.bills.jobs import (
    CHANGED,
    KIND,
    UNFINISHED_MAX,
    BillJobRecalculateRequest,
    BillJobRequest,
    BillOrder,
)
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import Uncovered
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.errors import Invalid, NotFound, TooManyJobs
from meterlake.model.resources.events import BILL_JOB, Event, change, data
from meterlake.model.rules.bill_jobs import check_bill_request
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import Month, local_date, zone
from meterlake.model.values.plurals import counted
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.jobs.bucket_tasks import TaskBuckets
from meterlake.pipeline.billing.jobs.documents import (
    COUNTED,
    HELD,
    MESSAGE,
    PENDING,
    STATUSES,
    TOTAL,
    describe_missing_bills,
    job_document,
)
from meterlake.pipeline.billing.jobs.recalculation import changed_versions
from meterlake.pipeline.billing.late_usage.apply import (
    apply_late_policy,
    note_before_bills,
    settle_late_usage,
)
from meterlake.pipeline.billing.run import (
    BillResult,
    BillRun,
    RunWatch,
    choose_bill,
    make_bills,
    make_outdated_bills,
    merge_results,
    summary,
)
from meterlake.pipeline.billing.shown_bills import SHOWN
from meterlake.pipeline.billing.unbilled import note_unbilled_usage
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.jobs.attempt import Cancelled
from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.pipeline.jobs.job_spec import JobSpec, pin_newest_snapshot
from meterlake.pipeline.jobs.run_job import JobRun, cancel_job, run_here, run_job
from meterlake.pipeline.usage.garbage import rare_garbage_searches
from meterlake.stages.bill import BillSelection, select_again, selections_of
from meterlake.stores import Organization, Stores
from meterlake.stores.fan_out import runner_of
from meterlake.stores.state import Job, JobStatus, Reader, Transaction
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events import events
from meterlake.stores.state.jobs import JobFilters, count_jobs, submit

# A meter that nothing prices is meant so; a price that is missing is not.
_HOLDING: Final = (Uncovered.NO_PRICING, Uncovered.NO_BILLING_PERIODS)
_OPEN: Final = (JobStatus.PENDING, JobStatus.RUNNING)
_RETRY_S: Final = 30
# A command that bills waits so often, and half a minute in all, for a world that fails.
_TRIES: Final = 6
_FIRST_PAUSE_S: Final = 1.0
_LOGGED_MAX: Final = 20


def bill(
    organization: Organization,
    month: Month,
    *,
    approve: bool = False,
    accounts: Sequence[str] | None = None,
    author: str = SYSTEM,
) -> BillResult:
    """Bill a month of an organization: the bills whose last day is in it.

    Billing again changes nothing, unless something that is on a bill has changed; then the bill
    is at its next version and PENDING. Locked bills are left alone; on or before the lock date of
    the organization every bill is, and an account that has none gets none.

    Args:
        organization: The organization.
        month: In the organization's time zone.
        approve: Whether the bills are APPROVED right away; those that are stay as they are.
        accounts: The codes of the accounts to bill; all of them if None.
        author: Who does it.

    Raises:
        NotFound: There is no such organization or account.
        Unavailable: A store failed; run it again.
    """
    account_ids = None if accounts is None else account_ids_of(organization, accounts)
    order = BillOrder(days=month, account_ids=account_ids, approve=approve)
    return bill_order(organization, order, author)


def account_ids_of(organization: Organization, codes: Sequence[str]) -> tuple[str, ...]:
    """The ids of accounts by their codes.

    Raises:
        NotFound: There is no such account.
    """
    with organization.reading() as reader:
        return account_names.ids_of(reader, codes)


def bill_order(
    organization: Organization, order: BillOrder, author: str = SYSTEM, *, shown: bool = False
) -> BillResult:
    """Make the bills of an order here and now, as a job that nobody else takes meanwhile.

    If this process dies, a worker finishes the job.

    Args:
        organization: The organization.
        order: What is to be billed.
        author: Who does it.
        shown: Whether a person is shown the bills, and may approve them then.

    Raises:
        Invalid: The order contradicts itself, or what it names does not exist.
        NotFound: There is no such organization.
        Unavailable: A store failed for half a minute; run it again.
    """
    snapshot = organization.lake.snapshot()
    with organization.transaction(author) as transaction:
        job = submit_order(transaction, order, snapshot)
    here = replace(BILL_JOBS, work=partial(_bill, shown=shown))
    submitted = partial(mark_step, "bill.submitted")
    return run_here(organization.stores, here, job.id, submitted, _TRIES, _FIRST_PAUSE_S)


def create(organization: Organization, author: str, document: Any) -> Document:
    """Make the job of bills that are asked for; a worker runs it.

    Raises:
        Invalid: A field or a rule is broken, or an account does not exist.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    request = read(BillJobRequest, document)
    return _create(organization, author, BillOrder(request=request))


def recalculate(organization: Organization, author: str, document: Any) -> Document:
    """Make the job that makes chosen bills again.

    Raises:
        Invalid: A field is broken, or a bill does not exist.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    request = read(BillJobRecalculateRequest, document)
    return _create(organization, author, BillOrder(bill_ids=request.bill_ids))


def _create(organization: Organization, author: str, order: BillOrder) -> Document:
    with organization.transaction(author) as transaction:
        refuse_too_many(transaction)
        job = submit_order(transaction, order)
    mark_step("bill.submitted")
    return job_document(job)


def refuse_too_many(transaction: Transaction) -> None:
    """Refuse another job while as many as may be are unfinished; nobody else counts meanwhile.

    Raises:
        TooManyJobs: They are.
    """
    if count_unfinished(transaction) >= UNFINISHED_MAX:
        raise TooManyJobs("bill jobs", UNFINISHED_MAX, _RETRY_S)


def count_unfinished(reader: Reader, schedule_id: str | None = None) -> int:
    """How many jobs wait or run; of a schedule, or all of them."""
    filters = JobFilters(statuses=_OPEN, schedule_id=schedule_id)
    return count_jobs(reader.connection, reader.org_id, KIND, filters)


def submit_order(
    transaction: Transaction, order: BillOrder, snapshot: int | None = None, **of_schedule: Any
) -> Job:
    """Write the job of an order down, and the event of it.

    Args:
        transaction: Where to.
        order: What is to be billed.
        snapshot: The lake's snapshot if the caller works on the job; else it waits.
        of_schedule: The schedule that makes it, and which of its runs it is.

    Raises:
        Invalid: The order contradicts itself, or what it names does not exist.
    """
    job = Job(
        id=transaction.new_id(),
        org_id=transaction.org_id,
        kind=KIND,
        parameters=resolve_order(transaction, order, transaction.now).to_wire(),
        created=transaction.now,
        author=transaction.author,
        **of_schedule,
    )
    if submit(transaction.connection, job if snapshot is None else job.begin(snapshot)):
        _note_event(transaction, job, None)
    return job


def resolve_order(reader: Reader, order: BillOrder, now: datetime) -> BillOrder:
    """Check an order, and decide what it leaves open: every attempt has the same.

    Raises:
        Invalid: It contradicts itself, or what it names does not exist.
    """
    request = order.request
    check_bill_request(request)
    [record] = reader.all(OrganizationConfig)
    ids = request.account_ids or ()
    known = account_names.by_id(reader, ids)
    for number, id_ in enumerate(ids):
        if id_ not in known:
            raise Invalid(f"accountIds[{number}]", id_, "it must be the id of an existing Account")
    if (
        request.target_currency is not None
        and reader.find(Currency, request.target_currency) is None
    ):
        raise Invalid(
            "targetCurrency", request.target_currency, "it must be the code of an existing Currency"
        )
    for place, bill_id in enumerate(order.bill_ids):
        try:
            bills.get(reader, bill_id)
        except NotFound:
            raise Invalid(
                f"billIds[{place}]", bill_id, "it must be the id of an existing Bill"
            ) from None
    if order.bill_ids or order.days or request.days:
        return order
    today = local_date(now, zone(request.timezone or record.entity.timezone))
    return replace(order, open_day=today)


def list_jobs(
    organization: Organization, page: Page, *, active: bool = False, status: str | None = None
) -> Document:
    """One page of jobs, the newest first.

    Args:
        organization: The organization.
        page: Which part of them.
        active: Only those that have not ended.
        status: Only those that stand so.

    Raises:
        Invalid: The status is none, or the token is none that a list gave.
    """
    if status is not None and status not in STATUSES:
        raise Invalid("status", status, f"it must be one of {', '.join(STATUSES)}")
    statuses = tuple(JobStatus) if status is None else STATUSES[status]
    if active:
        statuses = tuple(each for each in statuses if each in _OPEN)
    if not statuses:
        return envelope([], None)
    filters = JobFilters(statuses=statuses, counted=COUNTED.get(status or ""))
    found, token = organization.state.jobs.page(organization.id, KIND, filters, page)
    return envelope([job_document(job) for job in found], token)


def get_job(organization: Organization, id: str) -> Document:
    """One job.

    Raises:
        NotFound: The organization has no such job.
    """
    return job_document(organization.state.jobs.find(organization.id, id, KIND))


def cancel(organization: Organization, id: str, author: str | None = None) -> Document:
    """End a job that waits, or have the one that runs stop; bills that it has stored stay.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended.
    """
    cancel_job(organization, id, BILL_JOBS, author)
    return get_job(organization, id)


def run_bill_job(stores: Stores, job_id: str, stop: Stop = lambda: False) -> BillResult:
    """Run a job to its end, also one whose executor died.

    Args:
        stores: The home's stores.
        job_id: The job.
        stop: Whether to stop between two batches; the job then waits for the next worker.

    Raises:
        MeterlakeError: As `run_job` does.
    """
    return run_job(stores, BILL_JOBS, job_id, stop)


def _bill(job_run: JobRun[BillResult], *, shown: bool = False) -> BillResult:
    """Make the bills of a job, and write down in it what came of them.

    Args:
        job_run: Of the job.
        shown: Whether a person is shown the bills, and may approve them then.
    """
    stores, job = job_run.stores, job_run.job
    organization = stores.organization(job.org_id)
    order = BillOrder.from_wire(job.parameters)
    with organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
        chosen = [choose_bill(reader, each) for each in order.bill_ids]
    assert job.snapshot is not None
    watch = _JobWatch(job_run, len(order.bill_ids) or None)
    run_of = partial(BillRun, organization, author=job.author or SYSTEM, watch=watch)
    selections = selections_of(order, record.entity, filter(None, chosen))
    made = selections if order.makes_bills else []
    results: list[BillResult] = []
    if order.bill_ids and made:
        note_before_bills(run_of(made[0]), job.snapshot, order.bill_ids)
    for run in _runs(job_run, order, made, run_of, results):
        results.append(BillResult(run.selection.days, job.id, job.snapshot))
        with rare_garbage_searches():
            make_bills(run, results[-1])
            make_outdated_bills(run, results[-1])
    if order.late_usage:
        results.append(BillResult(selections[0].days, job.id, job.snapshot))
        apply_late_policy(run_of(selections[0]), results[-1], order.chosen_accounts)
    elif selections:
        settle_late_usage(run_of(selections[0]), results[0], order.chosen_accounts)
    watch.end()
    result = merge_results(job.id, job.snapshot, results)
    note_unbilled_usage(stores, job, record, made, result)
    if not order.bill_ids:
        result = replace(result, days=results[0].days)
    _note_result(job_run, result, shown=shown)
    return result


def _runs(
    job_run: JobRun[BillResult],
    order: BillOrder,
    selections: Iterable[BillSelection],
    run_of: Callable[..., BillRun],
    results: Iterable[BillResult],
) -> Iterator[BillRun]:
    """The runs of a job: of what it is asked for, and of bills that plans have changed in advance.

    Args:
        job_run: Of the job.
        order: What it is asked for.
        selections: The bills of that.
        run_of: Makes the run of a selection.
        results: What the runs before came to; read when these are over.
    """
    status = BillStatus.APPROVED if order.approve else BillStatus.PENDING
    runner, keep = runner_of(job_run.stores), order.leaves_approved
    fan_out = None if runner is None or order.bill_ids else TaskBuckets(runner, job_run.job)
    for each in selections:
        yield run_of(each, status=status, keep_approved=keep, fan_out=fan_out)
    if not order.bill_ids:
        affected = {each.key: each for result in results for each in result.affected}
        for each in select_again(affected.values()):
            yield run_of(each, keep_approved=keep)


class _JobWatch(RunWatch):
    """Writes down how far a job is, with the bills that are stored; and hears when to stop."""

    def __init__(self, run: JobRun[BillResult], total: int | None = None) -> None:
        self._run = run
        self._stores = run.stores
        self._attempt = run.attempt
        self._is_counted = total is not None
        self._total = total
        self._due = 0
        self._done = 0

    def begin(self, bills: int, more: int = 0) -> None:
        """Count the bills, unless they are chosen ones; later ones by an estimate at first."""
        if not self._is_counted:
            self._due += bills
            self._total = self._due + more
        before = self._stores.state.jobs.get(self._attempt.job.id)
        self._tell()
        self._run.check()
        self._attempt.go_on()
        job = self._attempt.job
        if job_document(before)["status"] != job_document(job)["status"]:
            with self._stores.state.transaction(job.org_id, job.author or SYSTEM) as transaction:
                _note_event(transaction, job, before)

    def store(self, transaction: Transaction, bills: int) -> None:
        """Write down what is stored; it is not if the job has another executor by now, or is to stop.

        Raises:
            Cancelled: Somebody cancelled it.
            StaleVersion: Another attempt has it.
        """
        self._run.check()
        self._tell(self._done + bills)
        job = self._attempt.job
        progress = wire.dumps_sorted(job.progress)
        if job.lease.renew(transaction.connection, transaction.now, progress=progress):
            raise Cancelled(job.kind, job.id)

    def note_done(self, bills: int) -> None:
        """Count bills that are stored; a transaction that is undone counts for nothing."""
        self._done += bills

    def end(self) -> None:
        """Bills that are empty and suppressed were never stored."""
        self._total = self._total or 0
        self._done = self._total
        self._tell()

    def _tell(self, done: int | None = None) -> None:
        total, done = self._total or 0, self._done if done is None else done
        self._attempt.tell(**{TOTAL: total, PENDING: max(total - done, 0)})


def _note_result(run: JobRun[BillResult], result: BillResult, *, shown: bool = False) -> None:
    stores, job = run.stores, run.job
    job.result = summary(result) | {HELD: held_accounts(result)}
    if shown:
        job.result[SHOWN] = [each.version for each in result.bills if each.would_be is None]
    order = BillOrder.from_wire(job.parameters)
    if order.bill_ids:
        job.result[CHANGED] = changed_versions(result)
    if order.makes_bills:
        with stores.state.reading(job.org_id) as reader:
            names = account_names.by_id(reader, order.chosen_accounts or ())
        codes = [each.code for each in names.values()]
        told = describe_missing_bills(result, codes, order.request.bill_date)
        job.result |= {} if told is None else {MESSAGE: told}


def held_accounts(result: BillResult) -> list[str]:
    """The accounts that have usage without a price, or could not be billed."""
    unpriced = {each.account_id for each in result.unpriced if each.reason in _HOLDING}
    return sorted(unpriced | {each.account_id for each in result.failures})


def _note_event(transaction: Transaction, job: Job, before: Job | None) -> None:
    old = None if before is None else job_document(before)
    new = job_document(job)
    event = Event(change(BILL_JOB, new, old), "BillJob", job.id, data(new, old))
    events.write(transaction.connection, job.org_id, transaction.now, transaction.new_id, event)


def describe_bill_job(_: Stores, job: Job) -> str:
    """How people know a job: what it makes, and of which date."""
    shown = job_document(job)
    if count := len(shown.get("billIds", ())):
        return f"recalculate {counted(count, 'bill')}"
    parts: list[Any] = [shown.get("billingFrequency", "").lower(), shown.get("billDate", "")]
    return " ".join(["bill", *(str(each) for each in parts if each)])


def _unbilled_accounts(job: Job) -> list[str]:
    """Which accounts a job could not bill, and why."""
    failed = job.result.get("failed", ())
    found = [f"account {account}: {reason}" for account, reason in failed[:_LOGGED_MAX]]
    if len(failed) > _LOGGED_MAX:
        found.append(f"and {counted(len(failed) - _LOGGED_MAX, 'more account')}")
    return found


BILL_JOBS: Final = JobSpec(
    kinds=(KIND,),
    name="bill job",
    work=_bill,
    flow="bill_job",
    pin=pin_newest_snapshot,
    note_event=_note_event,
    describe=describe_bill_job,
    warnings=_unbilled_accounts,
    taken=lambda: mark_step("bill.taken"),
    finished=lambda: mark_step("bill.finished"),
)
