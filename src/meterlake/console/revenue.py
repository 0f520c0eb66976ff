"""The page of revenue: what bills charge for by month, product and customer, and how it changes."""

import asyncio
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.month import growth
from meterlake.console.shell.api import EVERY_MAX, rows_of
from meterlake.console.shell.charts import bar_chart
from meterlake.console.shell.files import csv_file
from meterlake.console.shell.page import Visit, locale_of, month_name, page, percent
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month

REVENUE: Final = "/console/revenue"
_MONTHS: Final = 12
_LARGEST: Final = 10
# Of how many of the largest customers the share is said.
_SHARES: Final = (1, 5, 10)


def measured(rows: Iterable[dict[str, Any]], reporting: str | None) -> list[dict[str, Any]]:
    """Rows with `value` and `unit`: their own amounts, or those of one currency that have a rate."""
    if reporting is None:
        return [{**row, "value": row["amount"], "unit": row["currency"]} for row in rows]
    return [
        {**row, "value": row["reportingAmount"], "unit": reporting}
        for row in rows
        if "reportingAmount" in row
    ]


class Change(NamedTuple):
    """How a customer's amount differs from the month before."""

    row: dict[str, Any]
    now: Decimal
    before: Decimal

    @property
    def difference(self) -> Decimal:
        """By how much it grew."""
        with exact():
            return self.now - self.before


def totals(rows: Iterable[dict[str, Any]], *members: str) -> dict[tuple[Any, ...], Decimal]:
    """Sums of values by unit and members; several currencies become one only by rates."""
    found: dict[tuple[Any, ...], Decimal] = {}
    with exact():
        for row in rows:
            key = (row["unit"], *(row.get(name) for name in members))
            found[key] = found.get(key, ZERO) + Decimal(row["value"])
    return found


def share(part: Decimal, total: Decimal) -> Decimal | None:
    """How many percent of a total something is, rounded to a tenth; None of nothing."""
    if total <= 0:
        return None
    return percent(part, total)


def changes(
    now: Iterable[dict[str, Any]], before: Iterable[dict[str, Any]]
) -> dict[str, list[Change]]:
    """The largest changes of customers between two months, by unit."""
    rows = [*before, *now]
    known = {(row["unit"], row["accountId"]): row for row in rows}
    new, old = totals(now, "accountId"), totals(before, "accountId")
    found: dict[str, list[Change]] = {}
    for key, row in known.items():
        change = Change(row, new.get(key, ZERO), old.get(key, ZERO))
        if change.difference:
            found.setdefault(row["unit"], []).append(change)
    return {
        unit: sorted(each, key=lambda one: abs(one.difference), reverse=True)[:_LARGEST]
        for unit, each in sorted(found.items())
    }


def concentration(rows: Sequence[dict[str, Any]]) -> dict[str, list[tuple[int, Decimal | None]]]:
    """The share of the largest customers in what all come to, by unit."""
    by_customer = totals(rows, "accountId")
    found = {}
    for unit in sorted({key[0] for key in by_customer}):
        amounts = sorted(
            (each for key, each in by_customer.items() if key[0] == unit), reverse=True
        )
        with exact():
            whole = sum(amounts, ZERO)
            found[unit] = [
                (count, share(sum(amounts[:count], ZERO), whole))
                for count in _SHARES
                if count < len(amounts)
            ]
    return found


async def show_revenue(visit: Visit) -> Response:
    """Revenue of a month beside those before it, or one of its tables as CSV."""
    last = Month(visit.today.year, visit.today.month).moved(-1)
    month = last if (name := visit.query("month")) is None else Month.parse(name)
    reporting, before = visit.query("reporting"), month.moved(-1)

    async def rows(groups: str, first: Month, until: Month) -> list[dict[str, Any]]:
        # In one call: each sums all bills anew, however few rows it answers with.
        answer = await visit.api.get(
            "/revenue",
            groups=groups,
            startMonth=first,
            endMonth=until,
            reportingCurrency=reporting,
            pageSize=EVERY_MAX,
        )
        rates.update(answer.get("rates", {}))
        return rows_of(answer)

    rates: dict[str, Decimal] = {}
    of_months, *others, currencies, margins = await asyncio.gather(
        rows("month", month.moved(1 - _MONTHS), month),
        rows("product", month, month),
        rows("customer", month, month),
        rows("customer", before, before),
        visit.api.every("/picklists/currency"),
        _margins(visit, month, reporting),
    )
    months, products, customers, earlier = (
        measured(each, reporting) for each in (of_months, *others)
    )
    tables = {"month": months, "product": products, "customer": customers}
    if visit.query("format") == "csv" and (table := visit.query("table")) in tables:
        return _csv(f"revenue-{table}_{month}.csv", tables[table])
    names = [month.moved(step) for step in range(1 - _MONTHS, 1)]
    sums = totals(months, "month")
    units = sorted({each["unit"] for each in months})
    return visit.page(
        "revenue.html",
        month=month,
        earlier=before,
        later=month.moved(1),
        reporting=reporting,
        missing=_without_rate(of_months, month) if reporting else [],
        currencies=sorted(
            {each.get("code") or each["name"] for each in currencies}
            | {each["currency"] for each in months}
        ),
        charts=[(unit, _chart(visit, unit, names, months)) for unit in units],
        totals=[(unit, _beside(sums, unit, month)) for unit in units],
        paid=_paid(months, month, reporting),
        rates={code: rate for code, rate in sorted(rates.items()) if code != reporting},
        months=months,
        products=_with_shares([each for each in products if not _is_ahead(each)], "productId"),
        customers=_with_shares(customers, "accountId")[:50],
        count=len({each["accountId"] for each in customers}),
        changes=changes(customers, earlier),
        comparable=bool(earlier),
        concentration=concentration(customers),
        margins=margins,
        share=share,
        growth=growth,
    )


async def _margins(visit: Visit, month: Month, reporting: str | None) -> dict[str, Any] | None:
    """The margins of a month by product; None for who may not ask about all usage."""
    found: dict[str, Any] | None = await visit.api.find(
        "/revenue/margins", month=month, reportingCurrency=reporting, pageSize=EVERY_MAX
    )
    return found


class Paid(NamedTuple):
    """What a month's bills come to beside its revenue, in one unit; the three add up to it."""

    unit: str
    billed: Decimal
    drawn: Decimal
    ahead: Decimal


def _paid(months: Iterable[dict[str, Any]], month: Month, reporting: str | None) -> list[Paid]:
    """How what is billed differs from the revenue, by unit, where it does."""
    names = ("billedAmount", "drawnAmount", "chargedAheadAmount")
    if reporting is not None:
        names = ("reportingBilledAmount", "reportingDrawnAmount", "reportingChargedAheadAmount")
    found: dict[str, Paid] = {}
    with exact():
        for each in months:
            if each["month"] == str(month):
                own = found.get(each["unit"], Paid(each["unit"], ZERO, ZERO, ZERO))
                sums = (old + Decimal(each[name]) for old, name in zip(own[1:], names, strict=True))
                found[each["unit"]] = Paid(each["unit"], *sums)
    return [each for _, each in sorted(found.items()) if each.drawn or each.ahead]


def _without_rate(months: Iterable[dict[str, Any]], month: Month) -> list[str]:
    """The currencies of a month that no rate converts."""
    return sorted(
        each["currency"]
        for each in months
        if each["month"] == str(month) and "reportingAmount" not in each
    )


def _is_ahead(row: dict[str, Any]) -> bool:
    """Whether a row has only what is charged for prepayments, and what they pay: no revenue."""
    return not Decimal(row["amount"]) and bool(row["drawnAmount"] or row["chargedAheadAmount"])


def _beside(
    sums: dict[tuple[Any, ...], Decimal], unit: str, month: Month
) -> tuple[Decimal, Decimal, Decimal | None]:
    """What a month comes to, what the one before it, and the growth in percent."""
    now = sums.get((unit, str(month)), ZERO)
    before = sums.get((unit, str(month.moved(-1))), ZERO)
    return now, before, growth(now, before)


def _with_shares(found: list[dict[str, Any]], member: str) -> list[dict[str, Any]]:
    """One row for each product or customer and unit, the largest first, with its share."""
    sums, whole = totals(found, member), totals(found)
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for each in found:
        key = (each["unit"], each.get(member))
        count = rows[key]["count"] if key in rows else 0
        rows[key] = {**each, "value": sums[key], "count": count + each["count"]}
    ordered = sorted(rows.values(), key=lambda each: (each["unit"], -each["value"]))
    return [
        {**each, "share": share(Decimal(each["value"]), whole[each["unit"],])} for each in ordered
    ]


def _chart(
    visit: Visit, unit: str, names: Sequence[Month], months: Iterable[dict[str, Any]]
) -> object:
    """Months as bars: what is approved above what is a draft; by currency where one is reported."""
    of_unit = [each for each in months if each["unit"] == unit]
    groups: dict[str, list[Decimal | None]] = {}
    for each in of_unit:
        index = names.index(Month.parse(each["month"]))
        parts: tuple[tuple[str, Any], ...] = ((each["currency"], each["value"]),)
        if "reportingAmount" not in each:
            parts = (("Approved", each["approvedAmount"]), ("Draft", each["draftAmount"]))
        for name, value in parts:
            groups.setdefault(name, [None] * len(names))[index] = Decimal(value)
    labels = [month_name(each) for each in names]
    title = f"Revenue by month in {unit}"
    return bar_chart(title, labels, groups, locale_of(visit.request), unit)


def _csv(name: str, rows: Sequence[dict[str, Any]]) -> Response:
    members = (
        *("month", "accountCode", "accountName", "productCode", "productName", "currency"),
        *("amount", "approvedAmount", "draftAmount", "billedAmount", "drawnAmount"),
        *("chargedAheadAmount", "count", "reportingAmount", "reportingBilledAmount"),
        *("reportingDrawnAmount", "reportingChargedAheadAmount"),
    )
    shown = [each for each in members if any(each in row for row in rows)]
    return csv_file(name, [shown, *([row.get(each) for each in shown] for row in rows)])


ROUTES: Final = (Route(REVENUE, page(show_revenue), methods=["GET"], name="ConsoleRevenue"),)
