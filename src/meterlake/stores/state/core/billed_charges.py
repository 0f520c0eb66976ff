"""On which bill a charge stands: its line says so, nothing else is stored."""

from datetime import datetime

from sqlalchemy import or_, select

from meterlake.model.charges import ChargeLineItemType
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE


def bill_of_charge(
    reader: Reader, account_id: str, charge_id: str, at: datetime | None = None
) -> str | None:
    """The id of the bill that has the line of a charge; None while no bill has it.

    Args:
        reader: Where from.
        account_id: The account that is charged.
        charge_id: The charge.
        at: Leave out bills that were made later.
    """
    # A line of no plan: its key is type, nothing, what is charged, and when.
    keys = (BILL_LINE.c.key.startswith(f"{kind}//{charge_id}/") for kind in ChargeLineItemType)
    query = (
        select(BILL.c.id)
        .join(BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id)
        .where(BILL.c.org == reader.org_id, BILL.c.account_id == account_id, or_(*keys))
        .order_by(BILL.c.created.desc(), BILL.c.id)
        .limit(1)
    )
    if at is not None:
        query = query.where(BILL.c.created <= at)
    return reader.connection.execute(query).scalar()
