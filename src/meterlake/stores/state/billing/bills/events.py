"""The events of bills: created, changed, deleted."""

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import select

from meterlake.model.bills.requests import BillStatus
from meterlake.model.resources.events import BILL as EVENTS
from meterlake.model.resources.events import Event, change, data
from meterlake.model.values import wire
from meterlake.stores.state.billing.stored_bills import (
    ENVELOPE,
    BillContent,
    BillKey,
    StoredBill,
    join_lines,
)
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.core.transaction import Transaction


def note_event(transaction: Transaction, new: StoredBill | None, old: StoredBill | None) -> None:
    """Note the event of a bill that was created (no `old`), changed or deleted (no `new`)."""
    bill = new or old
    assert bill is not None
    documents = [
        (None if each is None else _event_document(transaction, each)) for each in (new, old)
    ]
    _add_event(transaction, bill.id, bill.content.key.account_id, documents)


def note_row_event(
    transaction: Transaction, new: Mapping[str, Any], old: Mapping[str, Any] | None
) -> None:
    """Note the same of rows as they are stored: what they show is not read and written again."""
    documents = [each and _row_document(transaction, each) for each in (new, old)]
    _add_event(transaction, new["id"], new["account_id"], documents)


def _add_event(
    transaction: Transaction,
    bill_id: str,
    account_id: str,
    documents: Sequence[Mapping[str, Any] | None],
) -> None:
    """Note what became of a bill: its document as it is now, and as it was."""
    new, old = documents
    transaction.journal.add(
        Event(
            name=change(EVENTS, new, old),
            kind="Bill",
            resource_id=bill_id,
            data=data(new, old),
            account_id=account_id,
        )
    )


def _row_document(transaction: Transaction, row: Mapping[str, Any]) -> dict[str, Any]:
    """What `_bill_document` shows of the bill of a row."""
    envelope: dict[str, Any] = {name: row.get(name) for name in ENVELOPE}
    stored = StoredBill(
        **envelope,
        status=BillStatus(row["status"]),
        content=BillContent(
            key=BillKey(*(row[name] for name in BillKey.COLUMNS)),
            period=row["period"],
            currency=row["currency"],
            total=Decimal(row["total"]),
            body=wire.shallow(row["body"]),
            pins={},
            lines=(),
        ),
    )
    return _event_document(transaction, stored)


def bill_documents(reader: Reader, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """What events carry of some bills as they are now, by id."""
    found: dict[str, dict[str, Any]] = {}
    for some in chunks_of(ids):
        query = select(BILL).where(BILL.c.org == reader.org_id, BILL.c.id.in_(some))
        for row in reader.connection.execute(query):
            found[row.id] = _event_document(reader, join_lines(row, ()))
    return found


def _event_document(reader: Reader, bill: StoredBill) -> dict[str, Any]:
    found = {**bill.to_wire(), **bill.life_to_wire(), "orgId": reader.org_id}
    return {name: value for name, value in found.items() if value is not None}
