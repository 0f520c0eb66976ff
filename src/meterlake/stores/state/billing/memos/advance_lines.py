"""Lines of bills that charge for time after the bill date, and the memos that correct them."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from sqlalchemy import or_, select

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.billing_dates import is_closed
from meterlake.model.values import wire
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

# What may be charged before its time. Keys of lines begin with the type.
ADVANCE_TYPES: Final = (
    LineItemType.STANDING_CHARGE,
    LineItemType.MINIMUM_SPEND,
    LineItemType.COUNTER_RUNNING_TOTAL_CHARGE,
)
MEMO_TYPES: Final = (LineItemType.CREDIT_MEMO, LineItemType.DEBIT_MEMO)


@dataclass(frozen=True, slots=True)
class BilledLine:
    """A calculated line on its bill.

    Attributes:
        closed: Whether the bill is locked, or the lock date closes it.
        overrides: What the bill was made with instead of the organization's settings.
    """

    bill_id: str
    bill_key: BillKey
    currency: str
    closed: bool
    overrides: dict[str, Any]
    key: str
    body: dict[str, Any]
    pins: dict[str, Any]
    bill_pins: dict[str, Any]

    @property
    def id(self) -> str:
        """Its id in the API."""
        return line_id(self.bill_id, self.key)


def billed_lines(
    reader: Reader,
    account_ids: Collection[str],
    types: Sequence[LineItemType],
    closed_until: date | None,
) -> Iterator[BilledLine]:
    """The calculated lines of some types on all bills of some accounts, in the order of their bills."""
    for chunk in chunks_of(sorted(account_ids)):
        query = (
            select(
                BILL,
                BILL_LINE.c.key,
                BILL_LINE.c.body.label("line"),
                BILL_LINE.c.pins.label("made"),
            )
            .join(BILL_LINE)
            .where(
                BILL.c.org == reader.org_id,
                BILL.c.account_id.in_(chunk),
                or_(*(BILL_LINE.c.key.like(f"{each.value}/%") for each in types)),
            )
            .order_by(BILL.c.bill_date, BILL.c.created, BILL.c.id, BILL_LINE.c.sequence)
        )
        for row in reader.connection.execute(query):
            pins = wire.loads(row.pins)
            yield BilledLine(
                bill_id=row.id,
                bill_key=BillKey.of_row(row),
                currency=row.currency,
                closed=is_closed(row.bill_date, closed_until, locked=row.locked),
                overrides=pins.get("overrides", {}),
                key=row.key,
                body=wire.loads(row.line),
                pins=wire.loads(row.made),
                bill_pins=pins,
            )


@dataclass(frozen=True, slots=True)
class BilledReturns:
    """A bill that gives back to sources what they paid of lines of other bills.

    Attributes:
        closed: Whether the bill is locked, or the lock date closes it.
        overrides: What the bill was made with instead of the organization's settings.
        returns: What goes back, as the bill pins it.
    """

    bill_key: BillKey
    closed: bool
    overrides: dict[str, Any]
    returns: list[dict[str, Any]]


def billed_returns(
    reader: Reader, account_ids: Collection[str], closed_until: date | None
) -> Iterator[BilledReturns]:
    """The bills of some accounts that give something back."""
    for chunk in chunks_of(sorted(account_ids)):
        query = select(BILL).where(
            BILL.c.org == reader.org_id,
            BILL.c.account_id.in_(chunk),
            BILL.c.pins.like('%"returns":%'),
        )
        for row in reader.connection.execute(query):
            pins = wire.loads(row.pins)
            closed = is_closed(row.bill_date, closed_until, locked=row.locked)
            key = BillKey.of_row(row)
            yield BilledReturns(key, closed, pins.get("overrides", {}), pins["returns"])


def closed_bills(
    reader: Reader, account_ids: Collection[str], closed_until: date | None
) -> set[BillKey]:
    """The bills of some accounts that never change."""
    found: set[BillKey] = set()
    for chunk in chunks_of(sorted(account_ids)):
        own = (BILL.c.org == reader.org_id, BILL.c.account_id.in_(chunk))
        columns = [BILL.c[name] for name in (*BillKey.COLUMNS, "locked")]
        for row in reader.connection.execute(select(*columns).where(*own)):
            if is_closed(row.bill_date, closed_until, locked=row.locked):
                found.add(BillKey.of_row(row))
    return found
