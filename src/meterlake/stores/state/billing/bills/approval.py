"""Many bills approved at once: those that wait for it, or that nothing speaks against by itself."""

from dataclasses import replace
from typing import Any, Final

from sqlalchemy import bindparam, update

from meterlake.model.bills.requests import BillStatus
from meterlake.stores.state.billing.bills.bills import approval
from meterlake.stores.state.billing.bills.events import note_row_event
from meterlake.stores.state.billing.bills.lists import BillFilters, select_bills
from meterlake.stores.state.billing.statements.jobs import ApprovedBill, order_statements
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.core.transaction import Transaction

# Bills of one transaction: other writers of State wait for as long as it takes.
BATCH: Final = 400


def approve_pending(transaction: Transaction, filters: BillFilters) -> int:
    """Approve up to `BATCH` of the bills that filters mean; how many were approved.

    Bills that are approved or locked, and those that the lock date closes, are left as they are.
    """
    waiting = replace(filters, status=BillStatus.PENDING, locked=False)
    query = select_bills(transaction, waiting).order_by(BILL.c.created, BILL.c.id).limit(BATCH)
    rows = [row._asdict() for row in transaction.connection.execute(query)]
    shared = {
        "status": BillStatus.APPROVED.value,
        "modified_by": transaction.author,
        **approval(transaction, BillStatus.APPROVED),
    }
    changes = [
        {
            **shared,
            "version": row["version"] + 1,
            "modified": max(transaction.now, row["modified"]),
        }
        for row in rows
    ]
    if rows:
        values: dict[str, Any] = {name: bindparam(name) for name in changes[0]}
        statement = update(BILL).where(BILL.c.id == bindparam("bill_id")).values(values)
        found = [{**each, "bill_id": row["id"]} for row, each in zip(rows, changes, strict=True)]
        transaction.connection.execute(statement, found)
    for row, each in zip(rows, changes, strict=True):
        note_row_event(transaction, {**row, **each}, row)
    order_statements(transaction, [ApprovedBill(row["id"], row["account_id"]) for row in rows])
    return len(rows)
