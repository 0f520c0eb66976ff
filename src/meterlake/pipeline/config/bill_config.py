"""The day up to which bills are closed, checked against the bills that are still open."""

from meterlake.model.configuration.organization import BillConfig
from meterlake.model.errors import Invalid
from meterlake.stores.state import Transaction
from meterlake.stores.state.billing.bills.bills import pending_until


def refuse_pending(transaction: Transaction, config: BillConfig) -> None:
    """Refuse a lock date while a bill that it would close waits for approval.

    Raises:
        Invalid: There is such a bill.
    """
    day = config.bill_lock_date
    pending = None if day is None else pending_until(transaction, day)
    if day is not None and pending is not None:
        rule = f"it must be a day before the last one of every PENDING bill; bill {pending!r} ends on or before it"
        raise Invalid("billLockDate", day.isoformat(), rule)
