"""Approves bills that somebody was shown as they are, and calculates none of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import Final

from meterlake.model.bills.jobs import BILL_IDS, KIND, BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.errors import Conflict, Required
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.run import Billed, BillResult
from meterlake.pipeline.billing.two_persons import refuse_own_work
from meterlake.stores import Organization
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.bills.bulk_approval import BATCH, approve_pending
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.billing.bills.summaries import BillState, read_bill_states
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters

# The member of a job's result with the versions of its bills, if somebody was shown them.
SHOWN: Final = "shown"
_JOBS_AT_ONCE: Final = 20
_JOBS_MAX: Final = 200
_ONE_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Approval:
    """What became of bills that somebody wants to approve.

    Attributes:
        approved: Those that are approved now.
        before: How many were approved before, or are locked.
        not_shown: Those that nobody was shown as they are: they wait still.
        job: The newest job that has shown some of them; None if none has.
    """

    approved: list[BillState] = field(default_factory=list)
    before: int = 0
    not_shown: list[BillState] = field(default_factory=list)
    job: Job | None = None

    def result(self, days: Month | DayRange) -> BillResult:
        """The same as what billing comes to, of which nothing was calculated."""
        found = BillResult(days, "", 0)
        found.bills.extend(_billed(each, BillOutcome.APPROVED) for each in self.approved)
        found.bills.extend(_billed(each, BillOutcome.NOT_SHOWN) for each in self.not_shown)
        return found


def approve_shown_bills(organization: Organization, order: BillOrder, author: str) -> Approval:
    """Approve the bills that wait and were shown as they are; nothing is calculated.

    Approved bills stay as they are, whatever they would come to. A bill that was changed since it
    was shown, or never was, waits until somebody looks at it.

    Args:
        organization: The organization.
        order: Which bills: its days, its accounts, and a frequency.
        author: Who approves them.

    Raises:
        Conflict: There are no such bills.
        Forbidden: Another person is to approve one of them.
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        chosen_days, frequency = days_of(order), order.request.billing_frequency
        filters = BillFilters(
            account_ids=tuple(order.chosen_accounts or ()),
            frequency=None if frequency is None else frequency.value,
            date_from=chosen_days.first + _ONE_DAY,
            date_before=chosen_days.after + _ONE_DAY,
        )
        found = read_bill_states(reader, filters)
    if not found:
        days = days_of(order)
        raise Conflict(f"there are no bills of {days} yet: make them, look at them, approve then")
    waiting = {each.id: each for each in found if each.waits}
    shown, job = _find_shown(organization, waiting)
    approval = Approval(before=len(found) - len(waiting), job=job)
    with organization.reading() as reader:
        # All of them: the last one stops the first.
        refuse_own_work(reader, author, [*shown])
    for ids in chunks_of([id_ for id_ in waiting if id_ in shown], BATCH):
        with organization.transaction(author) as transaction:
            # Somebody may have changed one meanwhile.
            now = read_bill_states(transaction, BillFilters(ids=tuple(ids)))
            same = [each for each in now if each == waiting[each.id]]
            if same:
                refuse_own_work(transaction, author, [each.id for each in same])
                approve_pending(transaction, BillFilters(ids=tuple(each.id for each in same)))
        approval.approved.extend(same)
    done = {each.id for each in approval.approved}
    approval.not_shown.extend(each for each in waiting.values() if each.id not in done)
    return approval


def days_of(order: BillOrder) -> Month | DayRange:
    """The last days of the periods of an order of a month or a date."""
    days = order.days or order.request.days
    assert days is not None
    return days


def _billed(bill: BillState, became: BillOutcome) -> Billed:
    is_approved = became is BillOutcome.APPROVED
    return Billed(
        bill_id=bill.id,
        account_id=bill.account_id,
        account_code=bill.account_code,
        bill_date=bill.bill_date,
        currency=bill.currency,
        total=bill.total,
        lines=bill.lines,
        stored=became,
        status=BillStatus.APPROVED if is_approved else bill.status,
        version=bill.version + is_approved,
    )


def _find_shown(
    organization: Organization, bills: Mapping[str, BillState]
) -> tuple[set[str], Job | None]:
    """Those of bills that a job has shown to somebody as they are, and the newest such job."""
    left, shown, newest = dict(bills), set[str](), None
    if not left:
        return shown, newest
    oldest = min(each.created for each in left.values())
    for job in _jobs(organization):
        # No job has shown what was not there yet.
        if not left or (job.finished is not None and job.finished < oldest):
            break
        versions = zip(job.result.get(BILL_IDS, ()), job.result.get(SHOWN, ()), strict=False)
        for id_, version in versions:
            if id_ in left and left[id_].version == version:
                shown.add(id_)
                del left[id_]
                newest = newest or job
    return shown, newest


def newest_job_of_month(organization: Organization, month: Month) -> Job | None:
    """The newest of the last jobs that made the bills of a month, of all accounts; None if none did."""
    return next((job for job in islice(_jobs(organization), _JOBS_MAX) if _is_of(job, month)), None)


def _is_of(job: Job, month: Month) -> bool:
    try:
        order = BillOrder.from_wire(job.parameters)
    except Required:  # Of an older version.
        return False
    days = order.days or order.request.days
    if days is None or order.chosen_accounts is not None or order.bill_ids:
        return False
    # A job of one date makes all that end on it: mostly those of the month's last day.
    return days.first < month.after and month.first < days.after


def _jobs(organization: Organization) -> Iterator[Job]:
    """The jobs that have made bills, the newest first."""
    filters, page = JobFilters(statuses=(JobStatus.COMPLETE,)), Page(_JOBS_AT_ONCE)
    while True:
        jobs, token = organization.state.jobs.page(organization.id, KIND, filters, page)
        yield from jobs
        if token is None:
            return
        page = Page(_JOBS_AT_ONCE, token)
