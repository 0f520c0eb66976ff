"""The totals of bills, beside those of the bills before them, and the bills of some dates."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import date, timedelta
from decimal import Decimal
from statistics import median
from typing import Final, NamedTuple

from sqlalchemy import and_, literal, or_, select

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.values import wire
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill, join_lines, line_of
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

# More accounts than these are not named in a query.
_NAMED_MAX: Final = 500
_COLUMNS: Final = ("id", "bill_date", "total", "account_id", "currency", "frequency", "interval")
_PAGE: Final = 500


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


class MonthTotal(NamedTuple):
    """What the bills of a month come to in one currency.

    Attributes:
        month: The billed month.
        bills: How many there are.
        approved: How many of them are approved.
        total: What all of them come to.
        approved_total: What those come to that are approved.
        locked: how many of the approved ones are locked.
        outdated: How many pending ones would draw something else if they were calculated again.
        outdated_approved: How many approved ones would, of those that are not locked.
        unnumbered: How many have no invoice number, of those that are not locked.
    """

    month: str
    currency: str
    bills: int
    approved: int
    total: Decimal
    approved_total: Decimal
    locked: int = 0
    outdated: int = 0
    outdated_approved: int = 0
    unnumbered: int = 0


def read_month_totals(reader: Reader, month: str | None = None) -> list[MonthTotal]:
    """The totals of a month, or of all, the newest first, by currency."""
    columns = ("period", "currency", "status", "total", "locked", "outdated_by", "invoice_number")
    query = select(*(BILL.c[name] for name in columns)).where(BILL.c.org == reader.org_id)
    if month is not None:
        query = query.where(BILL.c.period == month)
    found: dict[tuple[str, str], MonthTotal] = {}
    with exact():
        for row in reader.connection.execute(query):
            key, amount = (row.period, row.currency), Decimal(row.total)
            is_approved = row.status == BillStatus.APPROVED.value
            is_outdated = row.outdated_by is not None and not row.locked
            own = found.get(key) or MonthTotal(*key, 0, 0, ZERO, ZERO)
            found[key] = MonthTotal(
                *key,
                own.bills + 1,
                own.approved + is_approved,
                own.total + amount,
                own.approved_total + (amount if is_approved else ZERO),
                own.locked + bool(row.locked),
                own.outdated + (is_outdated and not is_approved),
                own.outdated_approved + (is_outdated and is_approved),
                own.unnumbered + (row.invoice_number is None and not row.locked),
            )
    by_currency = sorted(found.values(), key=lambda each: each.currency)
    return sorted(by_currency, key=lambda each: each.month, reverse=True)


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


def billed_between(reader: Reader, start: date, end: date) -> Iterator[StoredBill]:
    """The bills whose date lies in `[start, end)`, the newest first; read as they are needed."""
    dates = (
        select(BILL)
        .where(BILL.c.org == reader.org_id, BILL.c.bill_date >= start, BILL.c.bill_date < end)
        .order_by(BILL.c.bill_date.desc(), BILL.c.id)
        .limit(_PAGE)
    )
    query = dates
    while rows := reader.connection.execute(query).all():
        lines: dict[str, list[LineContent]] = {row.id: [] for row in rows}
        found = select(BILL_LINE).where(BILL_LINE.c.bill_id.in_(list(lines)))
        for line in reader.connection.execute(found.order_by(BILL_LINE.c.sequence)):
            lines[line.bill_id].append(line_of(line))
        yield from (join_lines(row, lines[row.id]) for row in rows)
        day, id_ = rows[-1].bill_date, rows[-1].id
        same_day = and_(BILL.c.bill_date == day, BILL.c.id > id_)
        query = dates.where(or_(BILL.c.bill_date < day, same_day))


def billed_account_ids(reader: Reader) -> set[str]:
    """The accounts that have a bill."""
    query = select(BILL.c.account_id).where(BILL.c.org == reader.org_id).distinct()
    return set(reader.connection.execute(query).scalars())


def billed_product_names(reader: Reader) -> list[tuple[str, str | None]]:
    """Name and code of the products that lines of bills are for, as they were called, in order."""
    name, code = (
        member_text(BILL_LINE.c.body, literal(member)) for member in ("productName", "productCode")
    )
    query = (
        select(name, code).join(BILL).where(BILL.c.org == reader.org_id, name.is_not(None))
    ).distinct()
    found = [(row[0], row[1]) for row in reader.connection.execute(query)]
    return sorted(found, key=lambda each: (each[0], each[1] or ""))


class PricedUnits(NamedTuple):
    """The units of an aggregation that lines of an account have at one price.

    Attributes:
        currency: That of the price.
    """

    aggregation_id: str
    account_id: str
    pricing_id: str
    currency: str
    units: Decimal


def priced_units(reader: Reader, month: str, aggregation_ids: Collection[str]) -> list[PricedUnits]:
    """What the bills of a month have of the usage of aggregations, by account and price."""
    if not aggregation_ids:
        return []
    aggregation = member_text(BILL_LINE.c.body, literal("aggregationId"))
    query = select(BILL_LINE.c.body, BILL.c.account_id).join_from(BILL_LINE, BILL)
    query = query.where(
        BILL.c.org == reader.org_id,
        BILL.c.period == month,
        aggregation.in_(list(aggregation_ids)),
    )
    sums: dict[tuple[str, str, str, str], Decimal] = defaultdict(Decimal)
    with exact():
        for row in reader.connection.execute(query):
            line = wire.loads(row.body)
            pricing_id, units = line.get("pricingId"), line.get("units")
            if line["lineItemType"] == LineItemType.USAGE and pricing_id and units is not None:
                account_id = line.get("childAccountId") or row.account_id
                key = line["aggregationId"], account_id, pricing_id, line["currency"]
                sums[key] += Decimal(units)
    return [PricedUnits(*key, units) for key, units in sorted(sums.items())]
