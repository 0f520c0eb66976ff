"""The credits that people put on lines of bills, where sources may pay for these lines."""

from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import select, update

from meterlake.model.values import wire
from meterlake.stores.state.billing.outdated_bills import NO_JOB
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_MEMO
from meterlake.stores.state.core.transaction import Transaction


class BilledCredit(NamedTuple):
    """A credit on a bill about a line of the same bill; its amount is below 0."""

    bill_id: str
    line_id: str
    amount: Decimal


def billed_credits(reader: Reader, account_ids: Iterable[str]) -> dict[BillKey, list[BilledCredit]]:
    """What people credit on lines of the bills of some accounts, in the order in which they did."""
    found: dict[BillKey, list[BilledCredit]] = defaultdict(list)
    columns = [BILL.c[name] for name in BillKey.COLUMNS]
    for ids in chunks_of(account_ids):
        query = (
            select(*columns, BILL_MEMO.c.bill_id, BILL_MEMO.c.line)
            .join(BILL, BILL.c.id == BILL_MEMO.c.bill_id)
            .where(BILL.c.org == reader.org_id, BILL.c.account_id.in_(ids))
            .order_by(BILL_MEMO.c.bill_id, BILL_MEMO.c.position)
        )
        for row in reader.connection.execute(query):
            line = wire.loads(row.line)
            amount = Decimal(line["convertedSubtotal"])
            if amount < 0 and line["referencedBillId"] == row.bill_id:
                credit = BilledCredit(row.bill_id, line["referencedLineItemId"], amount)
                found[BillKey.of_row(row)].append(credit)
    return dict(found)


def mark_credited(transaction: Transaction, bill_id: str) -> None:
    """Have a bill made again by the next job of its account: its sources pay something else."""
    one = update(BILL).where(BILL.c.id == bill_id)
    transaction.connection.execute(one.values(outdated_by=NO_JOB))
