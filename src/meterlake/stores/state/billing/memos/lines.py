"""The lines that people put on bills, as bills show them: read apart, and added to calculated lines."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import select

from meterlake.model.values import wire
from meterlake.model.values.ids import derived_id
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL_MEMO

# What the keys of these lines begin with; those of calculated lines begin with a line item type.
KEY_PREFIX: Final = "MEMO/"


@dataclass(frozen=True, slots=True)
class MemoLine:
    """What a bill shows of one of them.

    Attributes:
        key: Identifies it within its bill, beside the keys of calculated lines.
        body: The line without its number.
    """

    key: str
    body: dict[str, Any]

    @property
    def amount(self) -> Decimal:
        """What it adds to the bill; less than 0 for a credit."""
        return Decimal(self.body["convertedSubtotal"])


def line_id(bill_id: str, key: str) -> str:
    """The id of a line: the same however often its bill is calculated."""
    return derived_id(bill_id, key)


def memo_lines(reader: Reader, bill_ids: Sequence[str]) -> dict[str, list[MemoLine]]:
    """The lines that people put on some bills, by bill, in the order in which they were made."""
    table, found = BILL_MEMO.c, defaultdict(list)
    query = (
        select(table.bill_id, table.key, table.line)
        .where(table.bill_id.in_(bill_ids))
        .order_by(table.bill_id, table.position)
    )
    for row in reader.connection.execute(query) if bill_ids else ():
        found[row.bill_id].append(MemoLine(row.key, wire.loads(row.line)))
    return found
