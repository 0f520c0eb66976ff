"""The day up to which an organization's bills are closed."""

from datetime import date

from meterlake.model.organization import BillConfig
from meterlake.stores.state.core.reader import Reader


def lock_date(reader: Reader) -> date | None:
    """The day up to which bills are closed: those that end on or before it stay as they are."""
    for record in reader.all(BillConfig):
        return record.entity.bill_lock_date
    return None
