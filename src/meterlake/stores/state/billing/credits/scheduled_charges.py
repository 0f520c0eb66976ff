"""Which charges the schedules of balances made; a charge that is deleted is not made again."""

from datetime import datetime

from sqlalchemy import insert

from meterlake.model.values.period import Period
from meterlake.stores.state.core.tables import SCHEDULED_CHARGE
from meterlake.stores.state.core.transaction import Transaction


def note_charge(
    transaction: Transaction, schedule_id: str, charge_id: str, service: Period, due: datetime
) -> None:
    """Note that a schedule made a charge, in the transaction that stores the charge.

    Args:
        transaction: Where to.
        schedule_id: The schedule.
        charge_id: The charge.
        service: What it is for.
        due: When it was due.
    """
    row = {
        "charge_id": charge_id,
        "org": transaction.org_id,
        "schedule_id": schedule_id,
        "service_start": service.start,
        "service_end": service.end,
        "due": due,
        "created": transaction.now,
    }
    transaction.connection.execute(insert(SCHEDULED_CHARGE), row)
