"""Margins of a month: what bills charge for, less what measures of category COST come to.

Costs count for the customers whose bills have a currency, so that revenue and costs are of the same
people: of a child for its parent, if that has the bill. Each product, or each customer, has one row
for each currency; rows come to the totals.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.catalog.catalog import Meter, Product
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.configuration.queries import (
    DataExplorerAggregation,
    DataExplorerAggregationFunction,
    DataExplorerFieldType,
    DataExplorerGroup,
    DataExplorerGroupType,
    UsageQueryRequest,
)
from meterlake.model.measurements.measurement import Category
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month, zone
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.pipeline.billing.revenue import RevenueGroup
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.config.months import month_named
from meterlake.pipeline.explorer.explore import answer, asked
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.revenue import RevenueQuery, RevenueSum, read_revenue
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page, position_of, position_token

# Accounts with costs of one measure; of more, the rest would be missing without a word.
_ACCOUNTS_MAX: Final = 10_000_000
# Customers without a bill that are named, those with the largest costs.
_UNBILLED_MAX: Final = 100


class Cost(NamedTuple):
    """What a measure of category COST comes to in a month.

    Attributes:
        name: The meter and the field.
        unit: A currency, mostly.
        product_id: The product of the meter; None if it has none.
        accounts: What it comes to by account; empty if nothing was measured.
    """

    name: str
    unit: str
    product_id: str | None
    accounts: Mapping[str, Decimal]


@dataclass(slots=True)
class Margin:
    """What is left of revenue in a currency after the costs of the same customers.

    Attributes:
        id: The product or the customer; None for what has no product.
        currency: Of the bills, or that into which they are converted.
        cost: The costs in this currency.
        other_costs: Those in other units, which cannot be subtracted.
        customers: Who has costs.
    """

    id: str | None
    currency: str
    revenue: Decimal = ZERO
    cost: Decimal = ZERO
    other_costs: dict[str, Decimal] = field(default_factory=dict)
    customers: set[str] = field(default_factory=set)

    @property
    def margin(self) -> Decimal | None:
        """The revenue less the costs; None if some of them are in another unit."""
        if self.other_costs:
            return None
        with exact():
            return self.revenue - self.cost


class Margins(NamedTuple):
    """The rows of a month, the largest revenue of each currency first, and costs without a bill.

    Attributes:
        unbilled: By account and unit.
    """

    rows: list[Margin]
    unbilled: dict[tuple[str, str], Decimal]

    def totals(self) -> list[Margin]:
        """The sums of all rows, by currency."""
        found: dict[str, Margin] = {}
        for each in self.rows:
            whole = found.setdefault(each.currency, Margin(None, each.currency))
            with exact():
                whole.revenue += each.revenue
                whole.cost += each.cost
                for unit, amount in each.other_costs.items():
                    whole.other_costs[unit] = whole.other_costs.get(unit, ZERO) + amount
            whole.customers |= each.customers
        return [found[each] for each in sorted(found)]


def margins(
    organization: Organization,
    month: str,
    by: RevenueGroup,
    reporting: str | None,
    page: Page,
) -> Document:
    """The margins of a month by product or by customer.

    Args:
        organization: The organization.
        month: Such as 2026-10, `last` or `current`.
        by: Products or customers.
        reporting: The currency into which revenue and costs are converted, by the organization's
            rates; what has no rate is left as it is, and so in no row.
        page: Which rows.

    Raises:
        Invalid: The month is none; the token is none that a list gave.
    """
    meant, start = month_named(organization, month), position_of(page.token)
    currencies = read_currencies(organization)
    costs = _read_costs(organization, meant)
    query = RevenueQuery(first=str(meant), last=str(meant), by_account=True, by_product=True)
    with organization.reading() as reader:
        # Without costs there is no margin, and nobody waits for what the bills say.
        sums = read_revenue(reader, query) if costs else []
        billed = {each.key.account_id for each in sums}
        spending = {account for each in costs for account in each.accounts} - billed
        parents = account_names.parents(reader, spending)
    found = find_margins(costs, sums, parents, by, ReportingCurrency(currencies, reporting))
    shown = found.rows[start : start + page.size]
    unbilled = sorted(found.unbilled.items(), key=lambda each: (each[0][1], -each[1], each[0][0]))
    names = _Names.read(
        organization, by, shown, [key[0] for key, _ in unbilled[:_UNBILLED_MAX]], sums
    )
    answer: Document = {
        "month": str(meant),
        "group": by,
        "measures": [
            {"name": each.name, "unit": each.unit, "isMeasured": bool(each.accounts)}
            for each in costs
        ],
        "data": [{**names.of(each.id), **_row(each)} for each in shown],
        "totals": [_row(each) for each in found.totals()],
        "unbilled": [
            {**names.account(account), "cost": cost, "unit": unit}
            for (account, unit), cost in unbilled[:_UNBILLED_MAX]
        ],
        "unbilledCount": len({account for account, _ in found.unbilled}),
    }
    if reporting is not None:
        answer["reportingCurrency"] = reporting
    if start + page.size < len(found.rows):
        answer["nextToken"] = position_token(start + page.size)
    return answer


def _row(each: Margin) -> Document:
    shown = {
        "currency": each.currency,
        "revenue": each.revenue,
        "cost": each.cost,
        "margin": each.margin,
        "otherCosts": [
            {"unit": unit, "cost": cost} for unit, cost in sorted(each.other_costs.items())
        ],
        "customers": len(each.customers),
    }
    return {name: value for name, value in shown.items() if value is not None}


class ReportingCurrency(NamedTuple):
    """How amounts become those of the reporting currency; without one they stay as they are."""

    currencies: Currencies
    reporting: str | None

    def unit_of(self, unit: str) -> str | None:
        """What an amount of a currency is shown in; None if it has no rate."""
        if self.reporting is None:
            return unit
        return None if self.currencies.rate(unit, self.reporting) is None else self.reporting

    def convert(self, amount: Decimal, unit: str) -> Decimal:
        """An amount in the reporting currency, rounded as that one is; its own stays exact."""
        if self.reporting in {None, unit}:
            return amount
        rate = self.currencies.rate(unit, str(self.reporting))
        assert rate is not None, "who has no rate is left out"
        return self.currencies.convert(amount, rate, str(self.reporting))


def find_margins(
    costs: Iterable[Cost],
    sums: Iterable[RevenueSum],
    parents: Mapping[str, str],
    by: RevenueGroup,
    conversion: ReportingCurrency,
) -> Margins:
    """The rows of a month.

    Args:
        costs: All of them.
        sums: Revenue by customer and product.
        parents: Of customers without a bill, who may have it.
        by: Products or customers.
        conversion: What amounts are shown in.
    """
    rows, units = _earn(sums, by, conversion)
    spent: dict[tuple[str | None, str, str], Decimal] = defaultdict(lambda: ZERO)
    unbilled: dict[tuple[str, str], Decimal] = defaultdict(lambda: ZERO)
    for cost in costs:
        shown = conversion.unit_of(cost.unit) or cost.unit
        for account, amount in cost.accounts.items():
            payer = account if account in units else parents.get(account, account)
            with exact():
                if payer not in units:
                    unbilled[account, cost.unit] += amount
                    continue
                unit = shown if shown in units[payer] else min(units[payer])
                id_ = cost.product_id if by is RevenueGroup.PRODUCT else payer
                spent[id_, unit, cost.unit] += amount
            rows.setdefault((id_, unit), Margin(id_, unit)).customers.add(account)
    for (id_, unit, cost_unit), amount in spent.items():
        row = rows[id_, unit]
        if (conversion.unit_of(cost_unit) or cost_unit) != unit:
            row.other_costs[cost_unit] = amount
            continue
        converted = conversion.convert(amount, cost_unit)
        with exact():
            row.cost += converted
    # What balances and commitments are charged for, and pay, has no revenue of its own.
    told = (each for each in rows.values() if each.revenue or each.customers)
    order = sorted(told, key=lambda each: (each.currency, -each.revenue, each.id or ""))
    return Margins(order, dict(unbilled))


def _earn(
    sums: Iterable[RevenueSum], by: RevenueGroup, conversion: ReportingCurrency
) -> tuple[dict[tuple[str | None, str], Margin], dict[str, set[str]]]:
    """Rows with their revenue, and what the bills of each customer are in."""
    earned: dict[tuple[str | None, str], Decimal] = defaultdict(lambda: ZERO)
    units: dict[str, set[str]] = defaultdict(set)
    with exact():
        for each in sums:
            key = each.key
            if (unit := conversion.unit_of(key.currency)) is not None:
                units[str(key.account_id)].add(unit)
                id_ = key.product_id if by is RevenueGroup.PRODUCT else key.account_id
                earned[id_, key.currency] += each.revenue
    rows: dict[tuple[str | None, str], Margin] = {}
    for (id_, currency), amount in earned.items():
        unit, converted = str(conversion.unit_of(currency)), conversion.convert(amount, currency)
        row = rows.setdefault((id_, unit), Margin(id_, unit))
        with exact():
            row.revenue += converted
    return rows, units


def _read_costs(organization: Organization, month: Month) -> list[Cost]:
    """What measures of category COST come to in a month, by account."""
    with organization.reading() as reader:
        [config] = reader.all(OrganizationConfig)
        fields = [
            (meter, each)
            for meter in reader.all(Meter)
            for each in meter.entity.data_fields
            if each.category is Category.COST
        ]
    period = month.period(zone(config.entity.timezone))
    found = []
    for meter, each in fields:
        query = UsageQueryRequest(
            start_date=period.start,
            end_date=period.end,
            aggregations=(
                DataExplorerAggregation(
                    meter_id=meter.id,
                    field_code=each.code,
                    field_type=DataExplorerFieldType.MEASURE,
                    function=DataExplorerAggregationFunction.SUM,
                ),
            ),
            groups=(DataExplorerGroup(group_type=DataExplorerGroupType.ACCOUNT),),
        )
        questions, scope = asked(organization, query)
        rows = answer(organization, questions, replace(scope, rows=_ACCOUNTS_MAX)).documents()
        amounts = {
            row["accountId"]: value
            for row in rows
            for value in row.values()
            if isinstance(value, Decimal)
        }
        name = f"{meter.entity.name}: {each.name}"
        found.append(Cost(name, each.unit or "", meter.entity.product_id, amounts))
    return found


class _Names(NamedTuple):
    """What products and accounts are called."""

    by: RevenueGroup
    accounts: Mapping[str, account_names.AccountName]
    products: Mapping[str, tuple[str | None, str | None]]

    @classmethod
    def read(
        cls,
        organization: Organization,
        by: RevenueGroup,
        rows: Sequence[Margin],
        account_ids: Sequence[str],
        sums: Iterable[RevenueSum],
    ) -> "_Names":
        """Look them up: products as bills call them, or as they are called now."""
        with organization.reading() as reader:
            if by is RevenueGroup.CUSTOMER:
                account_ids = [*account_ids, *(each.id for each in rows if each.id)]
                return cls(by, account_names.by_id(reader, account_ids), {})
            now = {each.id: (each.entity.code, each.entity.name) for each in reader.all(Product)}
            billed = {each.key.product_id: each.product for each in sums if each.key.product_id}
            return cls(by, account_names.by_id(reader, account_ids), {**billed, **now})

    def of(self, id_: str | None) -> Document:
        """The product or the customer of a row."""
        if self.by is RevenueGroup.CUSTOMER:
            return self.account(str(id_))
        code, name = self.products.get(id_ or "", (None, None))
        shown = {"productId": id_, "productCode": code, "productName": name}
        return {name: value for name, value in shown.items() if value is not None}

    def account(self, id_: str) -> Document:
        """A customer, who may be deleted."""
        known = self.accounts.get(id_)
        named = {} if known is None else {"accountCode": known.code, "accountName": known.name}
        return {"accountId": id_, **named}
