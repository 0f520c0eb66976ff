"""What is open about bills that somebody approves: counted from what is stored."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import ReviewKind
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.money import exact
from meterlake.pipeline.billing.jobs.approval import HeldAccounts
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.approval import bills_to_approve
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.billing.bills.totals import BillTotals, read_bill_totals
from meterlake.stores.state.billing.late_usage.lists import count_undecided

_ONE_DAY: Final = timedelta(days=1)
# Of more bills than these nothing is counted: `meterlake bill review` has time for it.
_BILLS_MAX: Final = 10_000


def describe_open_points(organization: Organization, filters: BillFilters) -> str:
    """What is open about the bills that filters mean and that wait for approval; empty if nothing.

    It bills nothing again: usage without a price and accounts that failed are those of the job that
    billed them last. `meterlake bill review` looks closer.

    Raises:
        Unavailable: State cannot be reached.
    """
    waiting = replace(filters, status=BillStatus.PENDING, locked=False)
    with organization.reading() as reader:
        found = bills_to_approve(reader, waiting, _BILLS_MAX)
        [record] = reader.all(OrganizationConfig)
        counts = Counter({ReviewKind.LATE_USAGE: count_undecided(reader, [e.id for e in found])})
        if record.entity.review_total_percent and found:
            first, last = min(e.bill_date for e in found), max(e.bill_date for e in found)
            accounts, own = {e.account_id for e in found}, {e.id for e in found}
            periods = record.entity.review_total_periods
            totals = read_bill_totals(reader, first, last + _ONE_DAY, periods, accounts)
            counts[ReviewKind.TOTAL_JUMPED] = sum(
                each.bill_id in own and has_jumped(each, record.entity.review_total_percent)
                for each in totals
            )
    if record.entity.review_unpriced_usage:
        held = HeldAccounts(organization)
        counts[ReviewKind.UNPRICED_USAGE] = sum(map(held.is_held, found))
    told = [f"{count} {kind.value}" for kind, count in sorted(counts.items()) if count]
    months = sorted({f"{each.bill_date - _ONE_DAY:%Y-%m}" for each in found})
    if not told:
        return ""
    return f"open: {', '.join(told)} (meterlake bill review --month {months[-1]})"


def has_jumped(bill: BillTotals, percent: Decimal) -> bool:
    """Whether a bill is further from the median of those before it than so many percent of it."""
    if not bill.earlier:
        return False
    usual = bill.usual
    with exact():
        return abs(bill.total - usual) * 100 > abs(usual) * percent
