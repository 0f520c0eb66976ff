"""Scheduled billing: a job at every due instant of the organization's clock, made once.

A run is known by the instant at which it is due. After a time without a worker there is one run,
of the newest instant. While the last run is unfinished, the next one waits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from meterlake.model.bills.billing_dates import last_due
from meterlake.model.bills.jobs import UNFINISHED_MAX, BillOrder
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.entity import Record
from meterlake.model.values.period import local_date, zone
from meterlake.pipeline.billing.jobs.auto_approval import approve_due
from meterlake.pipeline.billing.jobs.jobs import BILL_JOBS, count_unfinished, submit_order
from meterlake.pipeline.billing.late_usage.policy import OPEN_AFTER_END
from meterlake.pipeline.billing.run import BillResult
from meterlake.pipeline.jobs.waiting import run_all_waiting
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.jobs import newest_due

AUTHOR: Final = "bill schedule"


def submit_scheduled(organization: Organization) -> str | None:
    """Make the job that is due and was not made yet.

    Returns:
        Its id; None if there is none.

    Raises:
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        if _missing(reader, _config(reader), organization.now()) is None:
            return None
    with organization.transaction(AUTHOR) as transaction:
        # Read again: somebody may have been faster, or have changed it.
        config = _config(transaction)
        due = _missing(transaction, config, transaction.now)
        if due is None:
            return None
        order = order_of_run(config.entity, transaction.now)
        return submit_order(transaction, order, schedule_id=config.id, due=due).id


def order_of_run(config: OrganizationConfig, now: datetime) -> BillOrder:
    """All bills of open periods, and of those that closed less than a day ago; and late usage."""
    tz = zone(config.timezone)
    today = local_date(now, tz)
    days = DayRange(local_date(now - OPEN_AFTER_END, tz), today)
    return BillOrder(days=days, open_day=today, late_usage=True)


def _config(reader: Reader) -> Record[OrganizationConfig]:
    [record] = reader.all(OrganizationConfig)
    return record


def _missing(reader: Reader, config: Record[OrganizationConfig], now: datetime) -> datetime | None:
    """The instant that is due and has no job; None if there is none, or another job goes first."""
    due = last_due(config.entity, now)
    if due is None or due < _clock_since(reader, config):
        return None
    known = newest_due(reader.connection, config.id)
    if known is not None and due <= known:
        return None
    own = count_unfinished(reader, schedule_id=config.id)
    return None if own or count_unfinished(reader) >= UNFINISHED_MAX else due


def _clock_since(reader: Reader, config: Record[OrganizationConfig]) -> datetime:
    """When the organization got its clock: nothing was due before."""
    since = config.modified
    for past in reversed(reader.history(OrganizationConfig, config.id)):
        if not isinstance(past.entity, OrganizationConfig) or _clock(past.entity) != _clock(
            config.entity
        ):
            return since
        since = past.valid_from
    return since


def _clock(config: OrganizationConfig) -> tuple[object, ...]:
    return config.scheduled_bill_interval, config.scheduled_bill_offset, config.timezone


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
