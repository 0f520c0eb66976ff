"""What the steps of a bill work with: the bill so far, and the lines that they draft."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import (
    BandUsage,
    Line,
    LineItemType,
    ProductName,
    Quantity,
    Segment,
)
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.money import ONE
from meterlake.model.values.period import Period
from meterlake.stages.bill.credits.credit_sources import AccountSources, LineCredit
from meterlake.stages.bill.credits.draw_downs import CreditSource, DrawDowns, PayableLine
from meterlake.stages.bill.pricing.applicable_pricing import PlanCatalog
from meterlake.stages.bill.pricing.currencies import Amount, Currencies
from meterlake.stages.bill.terms.terms import DueBill, PlanPeriod, PricedUsage

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class BilledQuantityKey(NamedTuple):
    """Whose quantity, of which aggregation, when, of which segment, and of what of the usage."""

    account_id: str
    aggregation_id: str
    period: Period
    segment: Segment | None = None
    selection: UsageSelection | None = None


Quantities = Mapping[BilledQuantityKey, Quantity]


@dataclass(frozen=True, slots=True)
class BillInputs:
    """What the bills of a run have in common.

    Attributes:
        zone: The time zone in which days are counted.
        catalog: The terms of plans by period.
        quantities: What was used.
        missing: The quantities that could not be calculated, and why.
        left_out: The aggregations that are not calculated for anybody, and why.
        shares: What accounts of pools are charged, worked out once for all their bills.
    """

    configuration: Configuration
    catalog: PlanCatalog
    zone: tzinfo
    snapshot: int
    currencies: Currencies
    quantities: Quantities
    missing: Mapping[BilledQuantityKey, str]
    left_out: Mapping[str, str]
    shares: dict[tuple[Any, ...], Any] = field(default_factory=dict)


class RoundedAmount(NamedTuple):
    """What a line comes to that is a part of another amount, which was rounded as a whole.

    Attributes:
        subtotal: In the currency of the draft.
        converted: In the billing currency.
    """

    subtotal: Decimal
    converted: Decimal


class LineAmount(NamedTuple):
    """How much a line charges: for one of a quantity, if nothing else is said.

    Attributes:
        amount: Exact, in the currency of the draft.
        currency: That of the amount; the one of the plan if None, or the billing currency.
        average_unit_price: What one unit costs; the whole amount where None.
        bands: What each band of a pricing charges of it.
        rounded: What it comes to if its amount is not rounded by itself.
    """

    amount: Amount
    unit: str
    quantity: Decimal = ONE
    units: Decimal = ONE
    currency: str | None = None
    average_unit_price: Decimal | None = None
    bands: tuple[BandUsage, ...] = ()
    rounded: RoundedAmount | None = None


class LineSubject(NamedTuple):
    """What a line charges for.

    Attributes:
        id: What is charged: an aggregation, a counter, a source of money, a charge.
        usage: The priced usage of a line of usage.
        usage_id: Whose usage that is, if it is not all that the priced usage is about.
    """

    id: str | None = None
    aggregation_id: str | None = None
    meter_id: str | None = None
    pricing_id: str | None = None
    segment: Segment | None = None
    usage: PricedUsage | None = None
    usage_id: str | None = None


class LinePlace(NamedTuple):
    """What a line is beside the other lines.

    Attributes:
        order: Where it stands among the lines of its step and its plan, before its service period.
        apart: What tells it from lines of the same type, plan, subject and time, if that is not all.
        covers: Which other lines an amount below 0 lowers, where sources pay; see `draw_downs`.
    """

    order: tuple[Any, ...] = ()
    apart: str | None = None
    covers: Callable[["LineDraft"], bool] | None = None


NO_SUBJECT: Final = LineSubject()
IN_ORDER: Final = LinePlace()


class LineDraft(NamedTuple):
    """A line before its end: not converted, rounded, numbered or pinned.

    Attributes:
        charged: How much.
        subject: What for.
        plan_period: The plan that charges it; None if none does.
        account_plan: The account plan that charges it, if it is not one of the plan.
        place: What it is beside the other lines.
        pins: Fields of `MadeFrom` that only lines of this kind have.
        members: Members of `BillLineItem` that only lines of this kind have, by wire name.
        basis: What its amount was worked out from, where the draft does not say it: for who explains it.
    """

    type: LineItemType
    description: str
    service_period: Period
    charged: LineAmount
    accounting_product: ProductName | None
    subject: LineSubject = NO_SUBJECT
    plan_period: PlanPeriod | None = None
    account_plan: Record[AccountPlan] | None = None
    place: LinePlace = IN_ORDER
    pins: Mapping[str, Any] = NOTHING
    members: Mapping[str, Any] = NOTHING
    basis: Any = None


def sort_lines(found: Iterable[LineDraft]) -> list[LineDraft]:
    """The lines of a step and a plan in the order in which they stand on the bill."""
    return sorted(found, key=lambda each: (each.place.order, each.service_period))


class FinishedLine(NamedTuple):
    """A line with what it was drafted as."""

    draft: LineDraft
    line: Line

    @property
    def amount(self) -> Decimal:
        """What it adds to the bill, rounded, in the billing currency."""
        return self.line.converted_subtotal


@dataclass(slots=True)
class BillDraft:
    """A bill while it is made.

    Attributes:
        bill: What is due.
        currency: The billing currency.
        sources: The commitments and balances of the account; None if it has none.
        credit_sources: What is left of them for the bill.
        credits: What people credit on lines of the bill.
        lines: The lines of the steps before, rounded and in the billing currency.
        drawn: What sources pay; None before that step, and without sources.
        payable: The lines as sources saw them.
    """

    bill: DueBill
    currency: str
    inputs: BillInputs
    sources: AccountSources | None = None
    credit_sources: Sequence[CreditSource] = ()
    credits: Sequence[LineCredit] = ()
    lines: list[FinishedLine] = field(default_factory=list)
    drawn: DrawDowns | None = None
    payable: Sequence[PayableLine] = ()

    def line(self, number: int) -> FinishedLine:
        """The line of a number."""
        return next(each for each in self.lines if each.line.sequence_number == number)

    def replace(self, number: int, finished: FinishedLine | None) -> None:
        """Put another line in place of the one of a number, or nothing."""
        [at] = [n for n, each in enumerate(self.lines) if each.line.sequence_number == number]
        self.lines[at : at + 1] = [] if finished is None else [finished]

    def amount_to_pay(self, amount: Amount, currency: str) -> Decimal:
        """What an amount comes to on the bill: converted and rounded, as a line of it is.

        Raises:
            CannotBill: There is no rate, or a digit would be lost.
        """
        currencies = self.inputs.currencies
        conversion = currencies.conversion(currency, self.currency)
        return currencies.round(amount.times(conversion.rate), self.currency)

    def plans_of_groups(self) -> list[list[PlanPeriod]]:
        """The plans of each account plan that is one of a plan group."""
        found: dict[str, list[PlanPeriod]] = {}
        for each in self.bill.plan_periods:
            if each.group is not None:
                found.setdefault(each.account_plan.id, []).append(each)
        return list(found.values())


# A kind of charge: drafts the lines that a bill has of it, from what is due and the lines before.
BillStep = Callable[[BillDraft], Iterator[LineDraft]]
