"""One amount on its way to a bill, before it becomes a line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.billing_oracle.money import rate_between, round_money
from tests.billing_oracle.periods import Window
from tests.billing_oracle.terms import (
    BillKey,
    Terms,
    currency_of,
    product_of,
)
from tests.billing_oracle.world import Row, World, find

STEPS = {
    "USAGE": 1,
    "COUNTER_RUNNING_TOTAL_CHARGE": 2,
    "COUNTER_ADJUSTMENT_DEBIT": 2,
    "COUNTER_ADJUSTMENT_CREDIT": 2,
    "STANDING_CHARGE": 3,
    "MINIMUM_SPEND": 4,
    "MINIMUM_SPEND_REFUND": 4,
    "COMMITMENT_FEE": 5,
    "BALANCE_FEE": 5,
    "AD_HOC": 5,
    "USAGE_CREDIT": 6,
    "COMMITMENT_CONSUMED": 7,
    "BALANCE_CONSUMED": 7,
    "OVERAGE_SURCHARGE": 8,
    "OVERAGE_USAGE": 8,
}
COUNTER_TYPES = (
    "COUNTER_RUNNING_TOTAL_CHARGE",
    "COUNTER_ADJUSTMENT_DEBIT",
    "COUNTER_ADJUSTMENT_CREDIT",
)


@dataclass(eq=False, kw_only=True)
class Charge:
    """An amount of one type, exact and as it stands on the bill.

    Attributes:
        exact: The amount in the pricing currency.
        amount: The same in the billing currency, converted and rounded once.
        subtotal: The exact amount rounded in the pricing currency.
        level: What comes first within a step: plans before plan groups, fees before ad hoc charges.
        rank: What comes first within a plan: the minimums of its pricings.
        number: The order of creation of what it comes from.
        period: The first regular period of the billing period that it belongs to.
        covers: The lines that a refund is for.
        units_within: The units of a usage line in a part of its window.
        is_share: Whether it is a part of what a pool is charged, so its amount is no price of its units.
    """

    type: str
    bill: BillKey
    currency: str
    exact: Fraction
    rate: Fraction
    amount: Fraction
    subtotal: Fraction
    service: Window
    terms: Terms | None = None
    plan: Row | None = None
    product: Row | None = None
    item: str | None = None
    pricing: Row | None = None
    segment: Row | None = None
    child: str | None = None
    quantity: Fraction = Fraction(1)
    units: Fraction = Fraction(1)
    level: int = 0
    rank: int = 0
    number: int = 0
    period: int = 0
    contract_id: str | None = None
    source_id: str | None = None
    covers: Sequence["Charge"] = field(default=())
    units_within: Callable[[Window], Fraction | None] | None = None
    is_share: bool = False

    @property
    def order(self) -> tuple[Any, ...]:
        """Product, account plan, plan of a group, aggregation, pricing, segment, window, child; then the creation."""
        return (
            STEPS[self.type],
            self.level,
            self.product["code"] if self.product else "",
            (self.terms.schedule.active.start.isoformat(), self.terms.number) if self.terms else (),
            self.plan["code"] if self.plan else "",
            self.rank,
            (self.item or "") if self.plan else "",
            self.pricing_order(),
            sorted((self.segment or {}).items()),
            self.service.start,
            self.service.end,
            self.child or "",
            self.number,
        )

    def pricing_order(self) -> tuple[Any, ...]:
        if self.pricing is None or self.terms is None:
            return ()
        start = self.terms.schedule.clock.instant(self.pricing["startDate"])
        world = self.terms.world
        rows = [*world.pricings, *world.counter_pricings]
        return (start, rows.index(self.pricing))


def make_charge(
    world: World, kind: str, bill: BillKey, amount: Fraction, currency: str, **more: Any
) -> Charge:
    """A charge of an exact amount: converted at the organization's rate and rounded, once."""
    target = bill_currency(world, bill)
    rate = rate_between(world, currency, target)
    return Charge(
        type=kind,
        bill=bill,
        currency=currency,
        exact=amount,
        rate=rate,
        amount=round_money(world, amount * rate, target),
        subtotal=round_money(world, amount, currency),
        **more,
    )


def bill_currency(world: World, bill: BillKey) -> str:
    """The billing currency of the account that is billed."""
    return currency_of(world, find(world.accounts, bill.account_id))


def plan_details(terms: Terms, plan: Row | None) -> dict[str, Any]:
    """What all charges of a plan of an account plan have in common."""
    on_parent = terms.billed["id"] != terms.account["id"]
    return {
        "terms": terms,
        "plan": plan,
        "product": product_of(terms.world, plan) if plan else None,
        "child": terms.account["code"] if on_parent else None,
        "contract_id": terms.contract_id,
    }
