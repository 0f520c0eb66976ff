"""Revenue by month, currency, customer and product: read once from bills, summed exactly.

What balances and commitments pay of a bill is payment, so it takes nothing from revenue; what is
charged ahead for them is revenue when they pay with it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Select, or_, select

from meterlake.model.bills.bill import DRAWING_TYPES, LineItemType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.core.entity_history import stream_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

_APPROVED: Final = BillStatus.APPROVED.value
_PREPAID: Final = frozenset({*DRAWING_TYPES, LineItemType.BALANCE_FEE, LineItemType.COMMITMENT_FEE})


class _Line(msgspec.Struct, rename="camel"):
    """What revenue needs of a line: a month has many, and most of what a line says is not read."""

    converted_subtotal: Decimal
    line_item_type: str | None = None
    product_id: str | None = None
    product_code: str | None = None
    product_name: str | None = None


_LINES: Final = msgspec.json.Decoder(_Line)


class RevenueKey(NamedTuple):
    """What is summed together; None where it is not told apart. A currency always is."""

    currency: str
    month: str | None = None
    account_id: str | None = None
    product_id: str | None = None


@dataclass(slots=True)
class RevenueSum:
    """The revenue of the bills or lines of a key.

    Attributes:
        product: Code and name of the product, as the newest line has them.
        billed: What they come to: the revenue, and what is charged ahead, less what is drawn.
        drawn: What balances and commitments pay of them.
        ahead: What they charge for balances and commitments.
        approved: The part of the revenue that is on approved bills.
        bills: How many bills or lines there are, drafts included.
    """

    key: RevenueKey
    product: tuple[str | None, str | None] = (None, None)
    billed: Decimal = ZERO
    drawn: Decimal = ZERO
    ahead: Decimal = ZERO
    approved: Decimal = ZERO
    bills: int = 0

    @property
    def revenue(self) -> Decimal:
        """What was delivered, however it is paid."""
        with exact():
            return self.billed + self.drawn - self.ahead


@dataclass(frozen=True, slots=True, kw_only=True)
class RevenueQuery:
    """What is summed.

    Attributes:
        first: The first billed month, such as `2026-01`.
        last: The last one.
        by_month: Whether months are told apart; so for the others.
        currency: Only bills in this currency; in all if None.
        account_ids: Only of these accounts; of all if empty.
    """

    first: str
    last: str
    by_month: bool = True
    by_account: bool = False
    by_product: bool = False
    currency: str | None = None
    account_ids: Sequence[str] = ()


def read_revenue(reader: Reader, asked: RevenueQuery) -> list[RevenueSum]:
    """The sums of bills, in no particular order.

    To tell products apart all lines are read, else only those of balances and commitments.
    """
    found: dict[RevenueKey, RevenueSum] = {}
    with exact():
        if not asked.by_product:
            for row in stream_rows(reader, select(*_BILL).where(*_conditions(reader, asked))):
                _add(found, asked, row, _Line(Decimal(row.total)), is_counted=True)
        for row in stream_rows(reader, _lines(reader, asked)):
            _add(found, asked, row, _LINES.decode(row.line), is_counted=asked.by_product)
    return list(found.values())


def _add(
    found: dict[RevenueKey, RevenueSum],
    asked: RevenueQuery,
    row: Any,
    line: _Line,
    *,
    is_counted: bool,
) -> None:
    """Add a line, or a bill as if it were one; within `exact`.

    A line `is_counted` unless its bill has told already what is billed.
    """
    key = RevenueKey(
        row.currency,
        row.period if asked.by_month else None,
        row.account_id if asked.by_account else None,
        line.product_id if asked.by_product else None,
    )
    own = found.get(key)
    if own is None:
        own = found[key] = RevenueSum(key)
    amount, kind = line.converted_subtotal, line.line_item_type
    earned = amount if is_counted else ZERO
    own.billed += earned
    if kind in _PREPAID:
        earned -= amount
        if kind in DRAWING_TYPES:
            own.drawn -= amount
        else:
            own.ahead += amount
    if row.status == _APPROVED:
        own.approved += earned
    own.bills += is_counted
    if asked.by_product:
        own.product = line.product_code, line.product_name


_BILL: Final = (BILL.c.period, BILL.c.currency, BILL.c.status, BILL.c.total, BILL.c.account_id)


def _lines(reader: Reader, asked: RevenueQuery) -> Select[Any]:
    query = (
        select(*_BILL, BILL_LINE.c.body.label("line"))
        .join(BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id)
        .where(*_conditions(reader, asked))
    )
    return query if asked.by_product else query.where(or_(*map(_is_of, sorted(_PREPAID))))


def _is_of(kind: str) -> ColumnElement[bool]:
    """Whether a line is of a type: its key, which an index has, begins with it."""
    return BILL_LINE.c.key.startswith(f"{kind}/", autoescape=True)


def _conditions(reader: Reader, asked: RevenueQuery) -> Iterator[Any]:
    yield BILL.c.org == reader.org_id
    yield BILL.c.period.between(asked.first, asked.last)
    if asked.currency is not None:
        yield BILL.c.currency == asked.currency
    if asked.account_ids:
        yield BILL.c.account_id.in_(asked.account_ids)
