"""The day up to which an organization's bills are closed."""

from datetime import date

from meterlake.model.bills.billing_dates import day_after
from meterlake.model.configuration.organization import BillConfig
from meterlake.stores.state.core.reader import Reader


def closed_before(reader: Reader) -> date | None:
    """The exclusive end of closed time: bills that end, and bill dates, until then stay."""
    for record in reader.all(BillConfig):
        day = record.entity.bill_lock_date
        return None if day is None else day_after(day)
    return None
