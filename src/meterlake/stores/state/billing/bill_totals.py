"""The totals of bills, beside those of the bills before them."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import Final, NamedTuple

from sqlalchemy import select

from meterlake.model.money import exact
from meterlake.model.pricing import BillingFrequency
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL

# More accounts than these are not named in a query.
_NAMED_MAX: Final = 500
_COLUMNS: Final = ("id", "bill_date", "total", "account_id", "currency", "frequency", "interval")


class BillTotals(NamedTuple):
    """A bill, and the same account's bills before it.

    Attributes:
        total: What it comes to.
        earlier: What those before it came to, the newest first.
    """

    bill_id: str
    account_id: str
    currency: str
    total: Decimal
    earlier: tuple[Decimal, ...]

    @property
    def usual(self) -> Decimal:
        """The median of those before it, of which there is one at least."""
        with exact():
            return median(self.earlier)


def read_bill_totals(
    reader: Reader,
    first: date,
    before: date,
    periods: int,
    account_ids: Collection[str] | None = None,
) -> Iterator[BillTotals]:
    """The bills of some bill dates, each with up to so many before it of the same kind.

    Args:
        reader: Of the organization.
        first: The first bill date.
        before: The day after the last one.
        periods: How many earlier bills at most.
        account_ids: Only bills of these accounts; of all if None.
    """
    columns = [*(BILL.c[name] for name in _COLUMNS), BILL.c.grouping_key]
    for frequency, interval in _kinds(reader, first, before):
        days = BillingFrequency(frequency).most_days * max(interval, 1) * periods + 1
        query = (
            select(*columns)
            .where(
                BILL.c.org == reader.org_id,
                BILL.c.frequency == frequency,
                BILL.c.interval == interval,
                BILL.c.bill_date >= first - timedelta(days=days),
                BILL.c.bill_date < before,
            )
            .order_by(BILL.c.bill_date, BILL.c.id)
        )
        if account_ids is not None and len(account_ids) <= _NAMED_MAX:
            query = query.where(BILL.c.account_id.in_(account_ids))
        totals: dict[tuple[str, ...], list[Decimal]] = defaultdict(list)
        for row in reader.connection.execute(query):
            own = totals[row.account_id, row.currency, row.grouping_key]
            total = Decimal(row.total)
            if row.bill_date >= first:
                earlier = tuple(own[: -periods - 1 : -1])
                yield BillTotals(row.id, row.account_id, row.currency, total, earlier)
            own.append(total)


def _kinds(reader: Reader, first: date, before: date) -> list[tuple[str, int]]:
    query = select(BILL.c.frequency, BILL.c.interval).where(
        BILL.c.org == reader.org_id, BILL.c.bill_date >= first, BILL.c.bill_date < before
    )
    rows = reader.connection.execute(query.distinct()).all()
    return sorted((row.frequency, row.interval) for row in rows)
