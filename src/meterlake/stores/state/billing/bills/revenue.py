"""What bills come to by month, currency, customer and product: read once, summed exactly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import Select, select

from meterlake.model.bills.requests import BillStatus
from meterlake.model.values import wire
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.core.entity_history import stream_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

_APPROVED: Final = BillStatus.APPROVED.value


class RevenueKey(NamedTuple):
    """What is summed together; None where it is not told apart. A currency always is."""

    currency: str
    month: str | None = None
    account_id: str | None = None
    product_id: str | None = None


@dataclass(slots=True)
class RevenueSum:
    """What the bills or lines of a key come to.

    Attributes:
        product: Code and name of the product, as the newest line has them.
        approved: What is on approved bills of it.
        bills: How many bills there are, drafts included.
    """

    key: RevenueKey
    product: tuple[str | None, str | None] = (None, None)
    total: Decimal = ZERO
    approved: Decimal = ZERO
    bills: int = 0


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
    """The sums of bills, in no particular order; lines are read only to tell products apart."""
    found: dict[RevenueKey, RevenueSum] = {}
    with exact():
        for row in stream_rows(reader, _query(reader, asked)):
            line = wire.loads(row.line) if asked.by_product else None
            key = RevenueKey(
                row.currency,
                row.period if asked.by_month else None,
                row.account_id if asked.by_account else None,
                None if line is None else line.get("productId"),
            )
            own = found.setdefault(key, RevenueSum(key))
            amount = Decimal(row.total if line is None else line["convertedSubtotal"])
            own.total += amount
            own.approved += amount if row.status == _APPROVED else ZERO
            own.bills += 1
            if line is not None:
                own.product = line.get("productCode"), line.get("productName")
    return list(found.values())


def _query(reader: Reader, asked: RevenueQuery) -> Select[Any]:
    columns = [BILL.c.period, BILL.c.currency, BILL.c.status, BILL.c.total, BILL.c.account_id]
    query = select(*columns)
    if asked.by_product:
        query = query.add_columns(BILL_LINE.c.body.label("line")).join(
            BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id
        )
    return query.where(*_conditions(reader, asked))


def _conditions(reader: Reader, asked: RevenueQuery) -> Iterator[Any]:
    yield BILL.c.org == reader.org_id
    yield BILL.c.period.between(asked.first, asked.last)
    if asked.currency is not None:
        yield BILL.c.currency == asked.currency
    if asked.account_ids:
        yield BILL.c.account_id.in_(asked.account_ids)
