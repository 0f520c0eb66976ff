"""Costs beside the revenue of exactly the customers that they are of, by product and currency."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from decimal import Decimal
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from meterlake.console.shell.api import EVERY_MAX
from meterlake.console.shell.page import Visit, percent
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month, format_instant

# What one question asks for at most; more customers than that are asked for by their ids.
_ROWS: Final = 20_000
_IDS: Final = 100


def measured(rows: Iterable[dict[str, Any]], reporting: str | None) -> list[dict[str, Any]]:
    """Rows with `value` and `unit`: their own amounts, or those of one currency that have a rate."""
    if reporting is None:
        return [{**row, "value": row["amount"], "unit": row["currency"]} for row in rows]
    return [
        {**row, "value": row["reportingAmount"], "unit": reporting}
        for row in rows
        if "reportingAmount" in row
    ]


class Cost(NamedTuple):
    """What a measure of category COST comes to in a month.

    Attributes:
        name: The meter and the field.
        unit: A currency, mostly.
        product_id: The product of the meter; None if it is global.
        accounts: What it comes to by account; empty if nothing was measured.
    """

    name: str
    unit: str
    product_id: str | None
    accounts: Mapping[str, Decimal]


@dataclass(slots=True)
class Margin:
    """What is left of the revenue of a product after the costs of the same customers.

    Attributes:
        product: The row of the product's revenue; None where the costs are of no one product.
        unit: What the bills of the customers are in.
        cost_unit: What the costs are in; only in one and the same unit they can be compared.
        customers: Those who have costs.
    """

    product: dict[str, Any] | None
    unit: str
    cost_unit: str
    revenue: Decimal
    cost: Decimal = ZERO
    customers: set[str] = field(default_factory=set)

    @property
    def left(self) -> Decimal | None:
        """The revenue less the costs; None in different units."""
        if self.unit != self.cost_unit:
            return None
        with exact():
            return self.revenue - self.cost

    @property
    def share(self) -> Decimal | None:
        """How many percent of the revenue are left; None without revenue."""
        left = self.left
        return percent(left, self.revenue) if left is not None and self.revenue > 0 else None


class Unbilled(NamedTuple):
    """A customer who has costs, and no bill to set them against."""

    account_id: str
    name: str
    cost: Decimal
    unit: str


class Margins(NamedTuple):
    """Costs of a month: with revenue, without, and measures of which nothing came."""

    rows: list[Margin]
    unbilled: list[Unbilled]
    unmeasured: list[str]


async def margins_of(
    visit: Visit,
    month: Month,
    reporting: str | None,
    products: Sequence[dict[str, Any]],
    customers: Sequence[dict[str, Any]],
) -> Margins | None:
    """The margins of a month; None if no meter has costs, or the person may not ask.

    `products` and `customers` are rows of revenue with values and units.
    """
    costs = await _costs(visit, month)
    if costs is None:
        return None
    spending = {account for each in costs for account in each.accounts}
    units = await _units(visit, month, reporting, customers, spending)
    unknown = await visit.api.by_id("/accounts", spending - units.keys())
    # The bill of a parent has what its children used.
    for account, each in unknown.items():
        if (parent := each.get("parentAccountId")) in units:
            units[account] = units[parent]
    names = {account: each["name"] for account, each in unknown.items()}
    return Margins(
        margins_by_product(costs, products, units),
        _unbilled(costs, units, names),
        [each.name for each in costs if not each.accounts],
    )


async def _units(
    visit: Visit,
    month: Month,
    reporting: str | None,
    customers: Sequence[dict[str, Any]],
    spending: Iterable[str],
) -> dict[str, set[str]]:
    """What the bills of customers are in."""
    units: dict[str, set[str]] = {}
    for each in customers:
        units.setdefault(each["accountId"], set()).add(each["unit"])
    # The list ends somewhere: whoever is not in it may have a bill even so.
    unseen = sorted(set(spending) - units.keys()) if len(customers) >= EVERY_MAX else []
    for start in range(0, len(unseen), _IDS):
        rows = await visit.api.every(
            "/revenue",
            groups="customer",
            startMonth=month,
            endMonth=month,
            reportingCurrency=reporting,
            accountIds=",".join(unseen[start : start + _IDS]),
        )
        for each in measured(rows, reporting):
            units.setdefault(each["accountId"], set()).add(each["unit"])
    return units


def margins_by_product(
    costs: Iterable[Cost],
    products: Iterable[dict[str, Any]],
    units: Mapping[str, set[str]],
) -> list[Margin]:
    """The margin of each product whose own meters have costs, the largest revenue first.

    Costs of a meter without a product stand beside the revenue of all products. `units` are what
    the bills of each customer are in; who has none is in no margin.
    """
    rows = list(products)
    found: dict[tuple[str | None, str, str], Margin] = {}
    for each in costs:
        for account, amount in each.accounts.items():
            if not (theirs := units.get(account)):
                continue
            unit = each.unit if each.unit in theirs else min(theirs)
            key = each.product_id, unit, each.unit
            if key not in found:
                found[key] = _revenue_of(rows, each.product_id, unit, each.unit)
            with exact():
                found[key].cost += amount
            found[key].customers.add(account)
    return sorted(found.values(), key=lambda each: (each.unit, -each.revenue))


def _revenue_of(
    rows: Iterable[dict[str, Any]], product_id: str | None, unit: str, cost_unit: str
) -> Margin:
    with exact():
        of_product = [
            each
            for each in rows
            if each["unit"] == unit and product_id in {None, each.get("productId")}
        ]
        revenue = sum((Decimal(each["value"]) for each in of_product), ZERO)
    product = None
    if product_id is not None:
        product = of_product[0] if of_product else {"productId": product_id}
    return Margin(product, unit, cost_unit, revenue)


def _unbilled(
    costs: Iterable[Cost], units: Mapping[str, set[str]], names: Mapping[str, str]
) -> list[Unbilled]:
    """Who has costs and no bill, the largest cost first."""
    sums: dict[tuple[str, str], Decimal] = {}
    with exact():
        for each in costs:
            for account, amount in each.accounts.items():
                if account not in units:
                    key = account, each.unit
                    sums[key] = sums.get(key, ZERO) + amount
    found = [
        Unbilled(account, names.get(account, "A deleted customer"), amount, unit)
        for (account, unit), amount in sums.items()
    ]
    return sorted(found, key=lambda each: (each.unit, -each.cost))


async def _costs(visit: Visit, month: Month) -> list[Cost] | None:
    """What measures of category COST come to in a month, by account."""
    if not visit.may("ListMeters", "PostUsageDataQuery", "ListAccounts"):
        return None
    fields = [
        (meter, each)
        for meter in await visit.api.every("/meters")
        for each in meter.get("dataFields", [])
        if each["category"] == "COST"
    ]
    if not fields:
        return None
    zone = ZoneInfo(visit.session.zone)
    start, end = (
        format_instant(datetime.combine(day, time(), zone)) for day in (month.first, month.after)
    )

    async def cost(meter: dict[str, Any], of: dict[str, Any]) -> Cost:
        asked = {
            "meterId": meter["id"],
            "fieldCode": of["code"],
            "fieldType": "MEASURE",
            "function": "SUM",
        }
        body = {
            "startDate": start,
            "endDate": end,
            "aggregations": [asked],
            "groups": [{"groupType": "ACCOUNT"}],
            "limit": _ROWS,
        }
        answer = await visit.api.send("POST", "/usage/query", body)
        amounts = {
            row["accountId"]: value
            for row in answer["data"]
            for value in row.values()
            if isinstance(value, Decimal)
        }
        name = f"{meter['name']}: {of['name']}"
        return Cost(name, of.get("unit", ""), meter.get("productId"), amounts)

    return list(await asyncio.gather(*(cost(meter, each) for meter, each in fields)))
