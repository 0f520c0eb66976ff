"""Bills that approve themselves, some time after their bill date."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final, NamedTuple

from meterlake.model.bills.billing_dates import approves_itself, grace_period
from meterlake.model.bills.jobs import KIND, BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Locked, NotFound, Required
from meterlake.model.values.period import local_date, zone
from meterlake.pipeline.billing.jobs.documents import HELD
from meterlake.stores import Organization
from meterlake.stores.state import JobStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.bulk_approval import WaitingBill, waiting_bills
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters

AUTHOR: Final = "auto-approval"
# Bills of one transaction: other writers of State wait for as long as it takes.
_BATCH: Final = 200
# As many jobs are asked at once whether something was wrong with a bill. The newest one is asked
# first, alone: mostly it is the one that made the bills.
JOBS_AT_ONCE: Final = 100
_ONE_DAY: Final = timedelta(days=1)


def approve_due(organization: Organization) -> int:
    """Approve the bills whose grace period is over; how many that were.

    A bill is held back while usage of its account has no price, or its account could not be
    billed, as the newest job says that was about it, or while it is not calculated from what its
    balances and commitments hold now; not with the setting `approve_held_bills`.

    Raises:
        Unavailable: State cannot be reached.
    """
    now = organization.now()
    with organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
        grace = grace_period(record.entity)
        if grace is None:
            return 0
        latest = local_date(now - grace, zone(record.entity.timezone))
        waiting = waiting_bills(reader, latest)
    found = [each for each in waiting if approves_itself(record.entity, each.bill_date, now)]
    if not found:
        return 0
    if not organization.settings.approve_held_bills:
        held = HeldAccounts(organization)
        current = (each for each in found if each.outdated_by is None)
        found = [each for each in current if not held.is_held(each)]
    ids = [each.id for each in found]
    for start in range(0, len(ids), _BATCH):
        batch = ids[start : start + _BATCH]
        with organization.transaction(AUTHOR) as transaction:
            for id_ in batch:
                # Somebody may have deleted or locked it meanwhile, or the lock date closes it.
                with suppress(Locked, NotFound):
                    bills.set_status(transaction, id_, BillStatus.APPROVED)
    return len(ids)


class _Verdict(NamedTuple):
    """What a job says: what it was about, and of which accounts something was wrong."""

    job_id: str
    order: BillOrder
    held: frozenset[str]

    def decides(self, bill: WaitingBill) -> bool:
        """Whether the job was about a bill; whatever it was asked for, if it calculated the bill."""
        return self.job_id == bill.job_id or _is_about(self.order, bill)


class HeldAccounts:
    """What the newest jobs say of the accounts that they were about."""

    def __init__(self, organization: Organization) -> None:
        self._verdicts: list[_Verdict] = []
        self._rest = _read_verdicts(organization)

    def is_held(self, bill: WaitingBill) -> bool:
        """Whether something was wrong with a bill's account the last time that it was billed.

        No job before the one that calculated it says anything newer.
        """
        found = next((each for each in self._walk() if each.decides(bill)), None)
        return found is not None and bill.account_id in found.held

    def _walk(self) -> Iterator[_Verdict]:
        """All of them, the newest first; those that nobody asked for yet are read."""
        yield from self._verdicts
        for each in self._rest:
            self._verdicts.append(each)
            yield each


def _read_verdicts(organization: Organization) -> Iterator[_Verdict]:
    complete, page = JobFilters(statuses=(JobStatus.COMPLETE,)), Page(1)
    while True:
        jobs, token = organization.state.jobs.page(organization.id, KIND, complete, page)
        for job in jobs:
            with suppress(Required):  # Of an older version.
                order = BillOrder.from_wire(job.parameters)
                yield _Verdict(job.id, order, frozenset(job.result.get(HELD, ())))
        if token is None:
            return
        page = Page(JOBS_AT_ONCE, token)


def _is_about(order: BillOrder, bill: WaitingBill) -> bool:
    if order.bill_ids:
        return bill.id in order.bill_ids
    accounts, frequency = order.chosen_accounts, order.request.billing_frequency
    if accounts is not None and bill.account_id not in accounts:
        return False
    if frequency is not None and frequency.value != bill.frequency:
        return False
    days = order.request.days or order.days
    if days is not None and days.first <= bill.bill_date - _ONE_DAY < days.after:
        return True
    return order.open_day is not None and order.open_day < bill.bill_date
