"""The day up to which an organization's bills are closed."""

from datetime import date, timedelta

from meterlake.model.organization import BillConfig
from meterlake.stores.state.core.reader import Reader


def day_after(lock_date: date) -> date:
    """The exclusive end of the time that a lock date closes; its own day is the last one."""
    return lock_date if lock_date == date.max else lock_date + timedelta(days=1)


def closed_before(reader: Reader) -> date | None:
    """The exclusive end of closed time: bills that end, and bill dates, until then stay."""
    for record in reader.all(BillConfig):
        day = record.entity.bill_lock_date
        return None if day is None else day_after(day)
    return None
