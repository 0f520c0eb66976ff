"""Usage that no bill charges for, written down for whoever looks into it later."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Final

from meterlake.model.bills.unbilled import Unpriced
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Month, local_date, zone
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.damaged_accounts import DamagedAccounts
from meterlake.pipeline.billing.run import BillResult
from meterlake.stages.bill import BillSelection
from meterlake.stores import Stores
from meterlake.stores.state import Job, Reader
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.unbilled_usage import read_first_days, replace_unbilled_usage

_ONE_DAY: Final = timedelta(days=1)
_MOMENT: Final = timedelta(microseconds=1)
_WRITTEN: Final = frozenset({BillOutcome.CREATED, BillOutcome.UPDATED})


def note_unbilled_usage(
    stores: Stores,
    job: Job,
    organization: Record[OrganizationConfig],
    selections: Sequence[BillSelection],
    result: BillResult,
) -> None:
    """Write down what is on no bill of the accounts and the months that a job billed.

    A run that bills a month as a whole has found all of it. Of other runs, the months of their
    bills are looked at once more, for their accounts and those that these may pay for.

    Args:
        stores: The home.
        job: The job.
        organization: Its settings.
        selections: What the job was asked for.
        result: What it came to.
    """
    with stores.state.reading(job.org_id) as reader:
        months = _billed_months(reader, organization, selections, result)
    whole = next(
        (found for each in selections if (found := _whole_month(each, organization))), None
    )
    if whole is not None:
        period = whole.period(zone(organization.entity.timezone))
        unpriced = dict.fromkeys(each for each in result.unpriced if each.period.start in period)
        _replace(stores, job, whole, unpriced, result.snapshot)
        months.pop(whole, None)
    for month, account_ids in sorted(months.items(), key=lambda each: str(each[0])):
        _look_again(stores, job, month, account_ids, result.snapshot)


def _whole_month(
    selection: BillSelection, organization: Record[OrganizationConfig]
) -> Month | None:
    """The month that a run bills as a whole, of all accounts."""
    is_partial = selection.account_ids is not None or selection.bills is not None
    if is_partial or selection.overrides.moves_periods:
        return None
    [month, *more] = _months_of_period(selection, organization)
    calendar = selection.calendar(Configuration([organization]))
    return None if more or month.period(calendar.zone) != calendar.period else month


def _months_of_period(
    selection: BillSelection, organization: Record[OrganizationConfig]
) -> list[Month]:
    calendar = selection.calendar(Configuration([organization]))
    own = zone(organization.entity.timezone)
    last = local_date(calendar.period.end - _MOMENT, own)
    return list(Month.between(local_date(calendar.period.start, own), last + _ONE_DAY))


def _billed_months(
    reader: Reader,
    organization: Record[OrganizationConfig],
    selections: Sequence[BillSelection],
    result: BillResult,
) -> dict[Month, set[str]]:
    """The accounts of bills that a job made, and of those that it was asked for, by month."""
    found: dict[Month, set[str]] = defaultdict(set)
    chosen: set[str] = set()
    for each in selections:
        if each.account_ids is None:
            continue
        chosen.update(each.account_ids)
        for month in _months_of_period(each, organization) if each.bills is None else ():
            found[month].update(each.account_ids)
    looked_at = [
        bill for bill in result.bills if bill.stored in _WRITTEN or bill.account_id in chosen
    ]
    first_days = read_first_days(reader, [bill.bill_id for bill in looked_at])
    for bill in looked_at:
        last = bill.bill_date - _ONE_DAY
        first = min(first_days.get(bill.bill_id, last), last)
        for month in Month.between(first, bill.bill_date):
            found[month].add(bill.account_id)
    return found


def _look_again(
    stores: Stores, job: Job, month: Month, account_ids: Collection[str], snapshot: int
) -> None:
    """Write down what is on no bill of a month, of some accounts and all that are related to them."""
    organization = stores.organization(job.org_id)
    with organization.reading() as reader:
        selection = BillSelection(month, account_ids=frozenset(read_relatives(reader, account_ids)))

    def find(selection: BillSelection) -> list[Unpriced]:
        reading = read_bills(organization, selection, snapshot)
        return [row for each in reading.calculations() for row in each.unpriced()]

    selection, found = DamagedAccounts(organization).work_without(selection, find)
    _replace(stores, job, month, found, snapshot, selection.account_ids)


def _replace(
    stores: Stores,
    job: Job,
    month: Month,
    found: Iterable[Unpriced],
    snapshot: int,
    account_ids: Collection[str] | None = None,
) -> None:
    with stores.state.transaction(job.org_id, job.author or SYSTEM) as transaction:
        replace_unbilled_usage(transaction, month, found, snapshot, account_ids)
