"""The page of revenue: what was billed by month, product and customer, and how it changes."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from starlette.responses import Response
from starlette.routing import Route

from meterlake.console.month import growth
from meterlake.console.shell.charts import bar_chart
from meterlake.console.shell.files import csv_file
from meterlake.console.shell.page import Visit, locale_of, month_name, page, percent
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month, format_instant

REVENUE: Final = "/console/revenue"
_MONTHS: Final = 12
_LARGEST: Final = 10
# Of how many of the largest customers the share is said.
_SHARES: Final = (1, 5, 10)


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


def measured(rows: Iterable[dict[str, Any]], reporting: str | None) -> list[dict[str, Any]]:
    """Rows with `value` and `unit`: their own amounts, or those of one currency that have a rate."""
    if reporting is None:
        return [{**row, "value": row["amount"], "unit": row["currency"]} for row in rows]
    return [
        {**row, "value": row["reportingAmount"], "unit": reporting}
        for row in rows
        if "reportingAmount" in row
    ]


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
        found = await visit.api.every(
            "/revenue",
            groups=groups,
            startMonth=first,
            endMonth=until,
            reportingCurrency=reporting,
        )
        return measured(found, reporting)

    first = await visit.api.get(
        "/revenue", groups="month", startMonth=month, endMonth=month, reportingCurrency=reporting
    )
    months, products, customers, earlier, currencies = await asyncio.gather(
        rows("month", month.moved(1 - _MONTHS), month),
        rows("product", month, month),
        rows("customer", month, month),
        rows("customer", before, before),
        visit.api.every("/picklists/currency"),
    )
    tables = {"month": months, "product": products, "customer": customers}
    if visit.query("format") == "csv" and (table := visit.query("table")) in tables:
        return _csv(f"revenue-{table}-{month}.csv", tables[table])
    names = [month.moved(step) for step in range(1 - _MONTHS, 1)]
    sums = totals(months, "month")
    units = sorted({each["unit"] for each in months})
    costs = await _costs(visit, month)
    return visit.page(
        "revenue.html",
        month=month,
        earlier=before,
        later=month.moved(1),
        reporting=reporting,
        missing=first.get("missingRates", []),
        currencies=sorted(
            {each.get("code") or each["name"] for each in currencies}
            | {each["currency"] for each in months}
        ),
        charts=[(unit, _chart(visit, unit, names, months)) for unit in units],
        totals=[(unit, _beside(sums, unit, month)) for unit in units],
        months=months,
        products=_with_shares(products, "productId"),
        customers=_with_shares(customers, "accountId")[:50],
        count=len({each["accountId"] for each in customers}),
        changes=changes(customers, earlier),
        concentration=concentration(customers),
        costs=_margins(costs, sums, month),
        margins=margins_by_product(costs or (), products),
        growth=growth,
    )


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
    labels = [month_name(each, locale_of(visit.request)) for each in names]
    title = f"Revenue by month in {unit}"
    return bar_chart(title, labels, groups, locale_of(visit.request), unit)


class Cost(NamedTuple):
    """What a measure of category COST comes to in a month.

    Attributes:
        name: The meter and the field.
        unit: A currency, mostly.
        product_id: The product of the meter; None if it is global.
        amount: None if nothing was measured.
    """

    name: str
    unit: str
    product_id: str | None
    amount: Decimal | None


class Margin(NamedTuple):
    """What is left of the revenue of a product after its costs in the same currency."""

    product: dict[str, Any]
    unit: str
    cost: Decimal
    revenue: Decimal

    @property
    def left(self) -> Decimal:
        """The revenue less the costs."""
        with exact():
            return self.revenue - self.cost

    @property
    def share(self) -> Decimal | None:
        """How many percent of the revenue are left; None without revenue."""
        return share(self.left, self.revenue)


async def _costs(visit: Visit, month: Month) -> list[Cost] | None:
    """What measures of category COST come to in a month.

    None if no meter has one, or the person may not ask.
    """
    if not visit.may("ListMeters", "PostUsageDataQuery"):
        return None
    meters = await visit.api.every("/meters")
    fields = [
        (meter, each)
        for meter in meters
        for each in meter.get("dataFields", [])
        if each["category"] == "COST"
    ]
    if not fields:
        return None
    zone = ZoneInfo(visit.session.zone)
    start, end = (
        format_instant(datetime.combine(day, time(), zone)) for day in (month.first, month.after)
    )
    found = []
    for meter, each in fields:
        asked = {
            "meterId": meter["id"],
            "fieldCode": each["code"],
            "fieldType": "MEASURE",
            "function": "SUM",
        }
        body = {"startDate": start, "endDate": end, "aggregations": [asked]}
        answer = await visit.api.send("POST", "/usage/query", body)
        numbers = [
            value for row in answer["data"] for value in row.values() if isinstance(value, Decimal)
        ]
        name = f"{meter['name']}: {each['name']}"
        amount = numbers[0] if numbers else None
        found.append(Cost(name, each.get("unit", ""), meter.get("productId"), amount))
    return found


def margins_by_product(costs: Iterable[Cost], products: Iterable[dict[str, Any]]) -> list[Margin]:
    """The margin of each product whose own meters have costs, by unit and the largest margin first.

    Costs of a meter without a product belong to none of them; so do costs in another currency than
    bills of the product have.
    """
    sums: dict[tuple[str, str], Decimal] = {}
    with exact():
        for each in costs:
            if each.product_id is not None and each.amount is not None:
                key = each.unit, each.product_id
                sums[key] = sums.get(key, ZERO) + each.amount
    rows = list(products)
    billed = totals(rows, "productId")
    known = {(row["unit"], row.get("productId")): row for row in rows}
    found = [
        Margin(known[key], key[0], cost, billed[key]) for key, cost in sums.items() if key in known
    ]
    return sorted(found, key=lambda each: (each.unit, -each.left))


def _margins(
    costs: list[Cost] | None,
    sums: dict[tuple[Any, ...], Decimal],
    month: Month,
) -> list[tuple[str, str, Decimal | None, Decimal | None, Decimal | None]] | None:
    """Costs beside what was billed in the same currency, and what is left of that."""
    if costs is None:
        return None
    found = []
    for name, unit, _, cost in costs:
        billed = sums.get((unit, str(month)))
        with exact():
            left = None if billed is None or cost is None else billed - cost
        found.append((name, unit, cost, billed, left))
    return found


def _csv(name: str, rows: Sequence[dict[str, Any]]) -> Response:
    members = (
        *("month", "accountCode", "accountName", "productCode", "productName", "currency"),
        *("amount", "approvedAmount", "draftAmount", "count", "reportingAmount"),
    )
    shown = [each for each in members if any(each in row for row in rows)]
    return csv_file(name, [shown, *([row.get(each) for each in shown] for row in rows)])


ROUTES: Final = (Route(REVENUE, page(show_revenue), methods=["GET"], name="ConsoleRevenue"),)
