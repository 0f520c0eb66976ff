"""How stored bills stand to what the configuration of now makes of their months."""

from collections.abc import Mapping

from meterlake.model.bills.what_if import NAMED_MAX, StoredBills
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bill_keys import identity_of
from meterlake.pipeline.billing.what_if.simulated_bills import AccountMonth
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.calculations.simulated import stored_totals


def compare_with_stored(
    reader: Reader, month: Month, calculated: Mapping[str, AccountMonth], found: StoredBills
) -> None:
    """Count the stored bills of a month that come to something else; accounts without bills are left out.

    Args:
        reader: Of the simulation.
        month: The month.
        calculated: Its bills, by the ids of accounts.
        found: What was counted so far.
    """
    open_ = {key: each for account in calculated.values() for key, each in account.totals.items()}
    refused = {id_ for id_, account in calculated.items() if account.refused}
    for stored in stored_totals(reader, month, calculated.keys() - refused):
        bill = open_.pop(identity_of(stored.key), None)
        if bill is not None and (bill.currency, bill.total) == (stored.currency, stored.total):
            found.same += 1
            continue
        if bill is None and not stored.total:
            continue
        found.differing += bill is not None
        found.calculated_no_more += bill is None
        if len(found.different) < NAMED_MAX:
            found.different.append(stored.id)
    found.missing += sum(1 for each in open_.values() if each.total)
