"""What October costs: the bills that must come out, reckoned in fractions, without meterlake."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, TypeAlias

from sample_data import books
from sample_data.usage import BERLIN, Measurement

Entity: TypeAlias = Mapping[str, Any]
DAYS_OF_MONTH: Final = 31


@dataclass(frozen=True)
class Priced:
    """An amount in the currency of its price, still exact."""

    description: str
    amount: Fraction
    currency: str
    units: str = "1"


class Ledger:
    """The configuration by code, and the measurements that were stored."""

    def __init__(self, configuration: Mapping[str, Any], stored: Sequence[Measurement]) -> None:
        self.configuration = configuration
        self.stored: dict[str, list[Measurement]] = {}
        for one in stored:
            self.stored.setdefault(one.account, []).append(one)
        self.plans = _by_code(configuration["plans"])
        self.templates = _by_code(configuration["planTemplates"])
        self.aggregations = _by_code(configuration["aggregations"])

    def bills(self) -> Iterator[dict[str, Any]]:
        """A bill per account that is on a plan, by account code."""
        for account in sorted(self.configuration["accounts"], key=lambda one: str(one["code"])):
            lines = [line for link in self._links(account["code"]) for line in self._lines(link)]
            if lines:
                yield self._bill(account, lines)

    def _bill(self, account: Entity, lines: list[Priced]) -> dict[str, Any]:
        organization = self.configuration["organizationConfig"]
        currency = account.get("currency", organization["currency"])
        rates = {
            (rate["from"], rate["to"]): Fraction(str(rate["multiplier"]))
            for rate in organization["currencyConversions"]
        }
        converted = [
            _cents(line.amount * rates.get((line.currency, currency), Fraction(1)))
            for line in lines
        ]
        return {
            "account": account["code"],
            "currency": currency,
            "total": str(sum(converted, Decimal(0))),
            "lines": [
                [line.description, line.units, str(_cents(line.amount)), str(amount)]
                for line, amount in zip(lines, converted, strict=True)
            ],
        }

    def _links(self, account: str) -> list[Entity]:
        links = self.configuration["accountPlans"]
        return [link for link in links if link["accountId"] == account]

    def _lines(self, link: Entity) -> Iterator[Priced]:
        start, end = _overlap(books.START, books.END, link)
        if start >= end:
            return
        plan = self.plans[link["planId"]]
        template = self.templates[plan["planTemplateId"]]
        charge = Fraction(str(plan.get("standingCharge", template["standingCharge"])))
        if charge:
            days = (end.astimezone(BERLIN).date() - start.astimezone(BERLIN).date()).days
            amount = charge * Fraction(days, DAYS_OF_MONTH)
            yield Priced(f"standing charge of {plan['code']}", amount, template["currency"])
        for pricing in self._pricings(plan, template):
            yield from self._usage(link["accountId"], pricing, (start, end), template["currency"])

    def _pricings(self, plan: Entity, template: Entity) -> list[Entity]:
        """The plan's pricings, and its template's for aggregations that the plan does not price."""
        pricings = self.configuration["pricings"]
        own = [one for one in pricings if one.get("planId") == plan["code"]]
        named = {one["aggregationId"] for one in own}
        return own + [
            one
            for one in pricings
            if one.get("planTemplateId") == template["code"] and one["aggregationId"] not in named
        ]

    def _usage(
        self, account: str, pricing: Entity, active: tuple[datetime, datetime], currency: str
    ) -> Iterator[Priced]:
        start, end = _overlap(*active, pricing)
        aggregation = self.aggregations[pricing["aggregationId"]]
        found = books.quantities(self.stored.get(account, []), [aggregation], start, end)
        if not found and "defaultValue" not in aggregation:
            return
        units = Fraction(found[0]["units"] if found else str(aggregation["defaultValue"]))
        yield Priced(pricing["code"], price(units, pricing), currency, books.text(units))


def price(units: Fraction, pricing: Entity) -> Fraction:
    """What units cost: each slice at its band, or all at the band they reach."""
    lowers = [Fraction(str(band["lowerLimit"])) for band in pricing["pricingBands"]]
    reached = [
        (units - lower, band)
        for lower, band in zip(lowers, pricing["pricingBands"], strict=True)
        if units > lower
    ]
    if not pricing["cumulative"]:
        return sum((_part(units, band) for _, band in reached[-1:]), Fraction(0))
    widths = [upper - lower for lower, upper in pairwise(lowers)]
    slices = [min(over, width) for (over, _), width in zip(reached, [*widths, units], strict=False)]
    return sum(
        (_part(part, band) for part, (_, band) in zip(slices, reached, strict=True)), Fraction(0)
    )


def _part(units: Fraction, band: Entity) -> Fraction:
    return units * Fraction(str(band["unitPrice"])) + Fraction(str(band["fixedPrice"]))


def _cents(amount: Fraction) -> Decimal:
    """Rounded half up to two decimals; no amount here is negative."""
    return Decimal(math.floor(amount * 100 + Fraction(1, 2))).scaleb(-2)


def _overlap(start: datetime, end: datetime, limits: Entity) -> tuple[datetime, datetime]:
    first = datetime.fromisoformat(limits["startDate"])
    last = datetime.fromisoformat(limits["endDate"]) if "endDate" in limits else end
    return max(start, first.astimezone(UTC)), min(end, last.astimezone(UTC))


def _by_code(entities: Iterable[Entity]) -> dict[str, Entity]:
    return {str(entity["code"]): entity for entity in entities}
