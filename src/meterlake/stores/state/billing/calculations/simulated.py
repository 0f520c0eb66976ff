"""What a simulation of bills compares itself with: stored bills, and the lines that people put on them."""

from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import select

from meterlake.model.values.period import Month
from meterlake.stores.state.billing.memos.memos import MemoLine, memo_lines
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.core.views.simulated_state import STORED_BILL


class StoredTotal(NamedTuple):
    """What a bill comes to as it is stored."""

    id: str
    key: BillKey
    currency: str
    total: Decimal


def stored_totals(
    reader: Reader, month: Month, account_ids: Collection[str]
) -> Iterator[StoredTotal]:
    """The stored bills of some accounts whose last day is in a month.

    Args:
        reader: Of a simulation that begins with the month, or before.
        month: The month.
        account_ids: The accounts.
    """
    table = STORED_BILL.c
    columns = [table[name] for name in ("id", *BillKey.COLUMNS, "currency", "total")]
    for ids in chunks_of(account_ids):
        query = select(*columns).where(table.account_id.in_(ids), table.period == str(month))
        for row in reader.connection.execute(query):
            yield StoredTotal(row.id, BillKey.of_row(row), row.currency, Decimal(row.total))


def simulated_memos(reader: Reader, first: Month, last: Month) -> dict[BillKey, list[MemoLine]]:
    """The lines that people put on the bills of months, as readers of a simulation see them."""
    columns = [BILL.c[name] for name in ("id", *BillKey.COLUMNS)]
    query = select(*columns).where(
        BILL.c.org == reader.org_id, BILL.c.period.between(str(first), str(last))
    )
    keys = {row.id: BillKey.of_row(row) for row in reader.connection.execute(query)}
    lines = memo_lines(reader, list(keys))
    return {key: lines[id_] for id_, key in keys.items() if id_ in lines}
