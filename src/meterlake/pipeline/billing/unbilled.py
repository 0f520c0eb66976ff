"""Usage that no bill charges for, written down for whoever looks into it later."""

from meterlake.model.entity import Configuration, Record
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, local_date
from meterlake.pipeline.billing.run import BillResult
from meterlake.stages.bill.periods.selection import BillSelection
from meterlake.stores.state.billing.unbilled_usage import replace_unbilled_usage
from meterlake.stores.state.core.transaction import Transaction


def note_unbilled_usage(
    transaction: Transaction,
    organization: Record[OrganizationConfig],
    selection: BillSelection,
    result: BillResult,
) -> None:
    """Write down what a run found, if it billed a month as a whole: only then is it all of it.

    Args:
        transaction: Of the organization.
        organization: Its settings.
        selection: What the run was asked for.
        result: What it came to.
    """
    if selection.overrides.moves_periods or selection.bills is not None:
        return
    calendar = selection.calendar(Configuration([organization]))
    first = local_date(calendar.period.start, calendar.zone)
    month = Month(first.year, first.month)
    if calendar.period != month.period(calendar.zone):
        return
    found = [each for each in result.unpriced if each.period.start in calendar.period]
    accounts = selection.account_ids
    replace_unbilled_usage(transaction, month, found, result.snapshot, accounts)
