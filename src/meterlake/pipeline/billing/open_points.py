"""What is open about bills that somebody approves: counted from what is stored."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import ReviewKind
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.values.money import exact
from meterlake.pipeline.billing.jobs.auto_approval import HeldAccounts
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.bulk_approval import bills_to_approve
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.billing.bills.totals import BillTotals, read_bill_totals
from meterlake.stores.state.billing.late_usage.lists import count_undecided

_ONE_DAY: Final = timedelta(days=1)
# Of more bills than these nothing is counted: `meterlake bill review` has time for it.
_BILLS_MAX: Final = 10_000


class OpenPoints(NamedTuple):
    """How much is open about bills, by its kind, and the latest of their months."""

    counts: dict[str, int]
    month: str

    def describe(self) -> str:
        """It in words, with the command that shows more; empty if nothing is open."""
        if not self.counts:
            return ""
        told = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        return f"open: {told} (meterlake bill review --month {self.month})"

    def to_wire(self) -> list[dict[str, Any]]:
        """The points as the API shows them."""
        return [
            {"kind": kind, "count": count, "month": self.month}
            for kind, count in self.counts.items()
        ]


def describe_open_points(organization: Organization, filters: BillFilters) -> str:
    """What `count_open_points` finds, in words; empty if nothing is open.

    Raises:
        Unavailable: State cannot be reached.
    """
    return count_open_points(organization, filters).describe()


def count_open_points(
    organization: Organization, filters: BillFilters, *, also_approved: bool = False
) -> OpenPoints:
    """What is open about the bills that filters mean and that wait for approval.

    It bills nothing again: usage without a price and accounts that failed are those of the job that
    billed them last. `meterlake bill review` looks closer.

    Args:
        organization: The organization.
        filters: Which bills.
        also_approved: Whether those count that are approved and wait for their lock.

    Raises:
        Unavailable: State cannot be reached.
    """
    status = filters.status if also_approved else BillStatus.PENDING
    waiting = replace(filters, status=status, locked=False)
    with organization.reading() as reader:
        found = bills_to_approve(reader, waiting, _BILLS_MAX)
        [record] = reader.all(OrganizationConfig)
        counts = Counter(
            {
                ReviewKind.LATE_USAGE: count_undecided(reader, [e.id for e in found]),
                ReviewKind.OUTDATED_BILL: sum(e.outdated_by is not None for e in found),
            }
        )
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
    told = {kind.value: count for kind, count in sorted(counts.items()) if count}
    months = sorted({f"{each.bill_date - _ONE_DAY:%Y-%m}" for each in found})
    return OpenPoints(told, months[-1] if months else "")


def has_jumped(bill: BillTotals, percent: Decimal) -> bool:
    """Whether a bill is further from the median of those before it than so many percent of it."""
    if not bill.earlier:
        return False
    usual = bill.usual
    with exact():
        return abs(bill.total - usual) * 100 > abs(usual) * percent
