"""Bills as they are stored, named as where they are made."""

from meterlake.model.catalog.plans import BillingFrequency
from meterlake.stages.bill import BillIdentity
from meterlake.stores.state.billing.stored_bills import BillKey


def identity_of(key: BillKey) -> BillIdentity:
    """What identifies a stored bill where bills are made."""
    return BillIdentity(
        *(key.account_id, key.bill_date, BillingFrequency(key.frequency)),
        *(key.interval, key.grouping_key),
    )
