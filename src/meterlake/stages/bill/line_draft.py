"""What the steps of a bill work with: what is charged, and the lines that they draft."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import NamedTuple

from meterlake.model.billing import BandUsage, LineItemType, ProductName, Quantity
from meterlake.model.period import Period
from meterlake.model.pricing import Pricing
from meterlake.stages.bill.currencies import Amount
from meterlake.stages.bill.terms import DueBill, PlanPeriod

# Prices a quantity: pricing, quantity, quantity per unit.
Price = Callable[[Pricing, Quantity, Decimal], tuple[BandUsage, ...]]
# Quantities by account id, aggregation id and period.
Quantities = Mapping[tuple[str, str, Period], Quantity]


@dataclass(frozen=True, slots=True)
class Charged:
    """What a step charges for: one plan of an account on one of its bills.

    Attributes:
        bill: The bill that the lines come onto.
        plan_period: The plan, and when it holds.
        quantities: What was used.
        price: Prices a quantity.
        zone: The time zone in which days are counted.
    """

    bill: DueBill
    plan_period: PlanPeriod
    quantities: Quantities
    price: Price
    zone: tzinfo


class LineDraft(NamedTuple):
    """A line before its end: not converted, rounded, numbered or pinned.

    Attributes:
        amount: Exact, in the currency of the plan.
        average_unit_price: What one unit costs; the whole amount where None.
        pins: Fields of `MadeFrom` that only lines of this kind have.
    """

    type: LineItemType
    description: str
    service_period: Period
    quantity: Decimal
    units: Decimal
    unit: str
    amount: Amount
    accounting_product: ProductName
    pins: Mapping[str, int | None]
    average_unit_price: Decimal | None = None
    aggregation_id: str | None = None
    meter_id: str | None = None
    pricing_id: str | None = None
    bands: tuple[BandUsage, ...] = ()


BillStep = Callable[[Charged], Iterator[LineDraft]]
