"""Which bills name something that has got another name."""

from datetime import datetime

from sqlalchemy import ColumnElement, or_, select

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.past import select_renamed
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE


def names_changed(reader: Reader, since: datetime, at: datetime) -> ColumnElement[bool]:
    """Whether the account of a bill, or the meter of one of its lines, was renamed in a time.

    What was created or deleted in that time counts as renamed. The database looks for the bills,
    so that memory does not grow with them.
    """
    of_account = BILL.c.account_id.in_(select_renamed(reader, Account, since, at))
    meters = select_renamed(reader, Meter, since, at)
    if reader.connection.execute(meters.limit(1)).first() is None:
        return of_account  # No line has to be read.
    bill, line = BILL.alias(), BILL_LINE.alias()
    of_meters = (
        select(line.c.bill_id)
        .join(bill, bill.c.id == line.c.bill_id)
        .where(bill.c.org == reader.org_id, member_text(line.c.body, "meterId").in_(meters))
    )
    return or_(of_account, BILL.c.id.in_(of_meters))
