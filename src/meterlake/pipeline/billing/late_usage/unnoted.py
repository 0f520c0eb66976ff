"""Late usage that no run has noted yet, beside what is noted: nobody waits for the next run to see it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from meterlake.model.bills.late_usage import LateUsage, LateUsageStatus, merge_sources, total_of
from meterlake.pipeline.billing.late_usage.findings import read_unnoted
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.late_usage.carried import carried_amounts
from meterlake.stores.state.billing.late_usage.late_bills import late_bills_by_id

if TYPE_CHECKING:
    from meterlake.pipeline.billing.late_usage.comparison import LateComparison

# Of bills, by their ids.
Unnoted = Mapping[str, LateUsage]


def find_unnoted(
    organization: Organization, period: str | None, account_ids: Collection[str] | None
) -> Unnoted:
    """What came late since a run looked for it, by bill.

    Args:
        organization: The organization.
        period: Only of bills of this month; of all if None.
        account_ids: Only of these accounts; of all if None.
    """
    return {
        each.bill_id: each
        for each in read_unnoted(organization)
        if (period is None or each.period == period)
        and (account_ids is None or each.account_id in account_ids)
    }


def complete_noted(noted: Sequence[LateUsage], unnoted: Unnoted) -> list[LateUsage]:
    """Noted late usage, with what came since as long as nothing was done about it for good.

    A run adds that to it, too: so each bill that lacks something is listed once.
    """
    found = []
    for each in noted:
        more = unnoted.get(each.bill_id)
        if more is not None and each.is_open and not each.is_correction:
            sources = merge_sources(each.sources, more.sources)
            found.append(replace(each, sources=sources, until=more.until))
        else:
            found.append(each)
    return found


def with_differences(
    organization: Organization, found: Sequence[LateUsage], unnoted: Unnoted
) -> list[LateUsage]:
    """Late usage with what its bills lack, calculated for those that something came for since."""
    ids = {each.bill_id for each in found if _is_new(each, unnoted)}
    if not ids:
        return list(found)
    # Who looks where nothing came late loads nothing that calculates bills.
    from meterlake.pipeline.billing.late_usage.comparison import compare_with_usage  # noqa: PLC0415 - loads what calculates bills

    with organization.reading() as reader:
        bills = late_bills_by_id(reader, ids, {})
    snapshot = organization.lake.snapshot()
    compared = {
        each.bill.id: each
        for each in compare_with_usage(organization, list(bills.values()), snapshot)
    }
    with organization.reading() as reader:
        return [
            _with_difference(reader, each, compared[each.bill_id])
            if _is_new(each, unnoted) and each.bill_id in compared
            else each
            for each in found
        ]


def _is_new(late: LateUsage, unnoted: Unnoted) -> bool:
    """Whether something came for it that no run has noted."""
    return late.bill_id in unnoted and late.until == unnoted[late.bill_id].until and late.is_open


def _with_difference(reader: Reader, late: LateUsage, comparison: "LateComparison") -> LateUsage:
    from meterlake.pipeline.billing.late_usage.carrying import line_to_carry  # noqa: PLC0415 - loads what calculates bills
    from meterlake.stages.bill.late_usage import find_differences  # noqa: PLC0415 - loads what calculates bills

    if comparison.failure is not None:
        return replace(late, reason=comparison.failure)
    bill = comparison.bill
    carried = carried_amounts(reader, bill)
    lines = [
        line_to_carry(bill, each)
        for each in find_differences(comparison.billed, comparison.due, carried)
    ]
    status = late.status
    if not lines and bill.content_version == late.bill_version:
        # As the next run decides it: what came and went again, or is free, is nothing to do.
        status = LateUsageStatus.UNCHANGED
    return replace(late, status=status, difference=total_of(lines), lines=lines)
