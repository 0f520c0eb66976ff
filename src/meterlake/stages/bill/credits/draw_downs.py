"""Commitments and balances pay for lines of a bill: who pays how much of which part of which line.

A line is cut once at every start and end of a source that may pay for it, so that each part is paid
for by sources that hold all the while. Sources draw in their order, lines in the bill's. What is
drawn never exceeds a source nor a line, and nothing depends on the order of what is given.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from decimal import Decimal, Inexact
from typing import Any, Final, NamedTuple

from meterlake.model.configuration.organization import BillCreditType
from meterlake.model.customers.balances import BalanceLineItemType
from meterlake.model.customers.contracts import CommitmentLineItemType
from meterlake.model.values.money import (
    ONE,
    ZERO,
    RoundingMode,
    exact,
    round_amount,
    round_quotient,
)
from meterlake.model.values.period import Period, count_days
from meterlake.stages.bill.pricing.currencies import CannotBill
from meterlake.stages.bill.pricing.remainders import (
    Weight,
    decimals,
    lower_by_weights,
    split_by_weights,
)

# What a source may pay for that names no types.
DRAWABLE: Final[Mapping[BillCreditType, frozenset[str]]] = {
    BillCreditType.PREPAYMENT: frozenset(CommitmentLineItemType),
    BillCreditType.BALANCE: frozenset(BalanceLineItemType),
}
# Also what always holds in a hierarchy of accounts.
DEFAULT_ORDER: Final = (BillCreditType.PREPAYMENT, BillCreditType.BALANCE)


class SourceKey(NamedTuple):
    """What identifies a source: in its rollover a balance is a source of its own."""

    id: str
    rollover: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditSource:
    """A commitment or a balance of an account, as it may pay for lines of one bill.

    Attributes:
        name: What people know it by, in messages.
        period: When what it pays for happens.
        left: What is left of it, in its own currency; below 0 if it is overdrawn. What a balance
            draws on the bill is no longer there for its rollover.
        was_filled: Whether it ever had anything; of a rollover `left` and `drawn_before` say it.
        drawn_before: What bills before drew of a rollover.
        rate: How many units of the billing currency one of its own is; None if there is no rate.
        places: Decimals of its own currency.
        mode: How its own currency is rounded.
        line_types: Types of the lines that it pays for; all that its kind may pay for if empty.
        product_ids: Products whose lines it pays for; any if empty.
        contract_id: The contract whose lines it pays for; any, or none, if None.
        overdraft: Whether it pays for what no source pays for.
        surcharge: The percent that is charged on usage beyond it; below 0 it is a discount.
        separates: Whether usage beyond it has lines of its own.
        reprices: Whether usage beyond it has, where its pricing has bands for that.
    """

    id: str
    kind: BillCreditType
    name: str
    period: Period
    created: datetime
    left: Decimal
    rollover: bool = False
    was_filled: bool = True
    drawn_before: Decimal = ZERO
    rate: Decimal | None = ONE
    places: int = 2
    mode: RoundingMode = RoundingMode.HALF_UP
    line_types: frozenset[str] = frozenset()
    product_ids: frozenset[str] = frozenset()
    contract_id: str | None = None
    overdraft: bool = False
    surcharge: Decimal | None = None
    separates: bool = False
    reprices: bool = False

    @property
    def key(self) -> SourceKey:
        """What identifies it."""
        return SourceKey(self.id, self.rollover)

    def may_pay(self, line: "PayableLine") -> bool:
        """Whether it pays for lines such as this one, at some time."""
        return (
            line.type in (self.line_types or DRAWABLE[self.kind])
            and (not self.product_ids or line.product_id in self.product_ids)
            and self.contract_id in {None, line.contract_id}
        )

    def holds(self, period: Period) -> bool:
        """Whether it pays for all of a period that has a length."""
        return self.period.start <= period.start and period.end <= self.period.end


@dataclass(frozen=True, slots=True, kw_only=True)
class PayableLine:
    """A line of the bill as far as sources see it.

    Attributes:
        number: Its position on the bill.
        amount: Rounded, in the billing currency; below 0 it lowers what is left of others to pay.
        units_of: The units of a part of its period; None for what is divided by days.
        covers: The numbers of the lines that a negative one lowers; empty for all lines.
    """

    number: int
    type: str
    amount: Decimal
    period: Period
    product_id: str | None = None
    contract_id: str | None = None
    units_of: Callable[[Period], Decimal | None] | None = field(default=None, compare=False)
    covers: frozenset[int] = frozenset()


class PartKey(NamedTuple):
    """What identifies a part of a line; parts are numbered from 0."""

    line: int
    part: int


class LinePart(NamedTuple):
    """A part of a line between two cuts.

    Attributes:
        amount: What there is to pay of it.
        payers: The sources that may pay for it, in their order.
    """

    key: PartKey
    type: str
    period: Period
    amount: Decimal
    payers: tuple[SourceKey, ...]


class Draw(NamedTuple):
    """What a source pays for a part of a line.

    Attributes:
        amount: In the billing currency.
        posted: In the currency of the source.
    """

    source: SourceKey
    part: PartKey
    amount: Decimal
    posted: Decimal


class SourceDraw(NamedTuple):
    """What a source pays on the bill.

    Attributes:
        amount: In the billing currency, with its overdraft.
        posted: In its own currency, with its overdraft.
        left: What is left of it, in its own currency.
        exhausted: Whether nothing is left of it that was something once.
    """

    source: CreditSource
    amount: Decimal
    posted: Decimal
    left: Decimal
    exhausted: bool


@dataclass(frozen=True, slots=True)
class DrawDowns:
    """What sources pay on one bill.

    Attributes:
        sources: Every source that might pay, in their order, also those that pay nothing.
        parts: Every part of a line for which there is something to pay, in the bill's order.
        draws: Who pays what, by source and part.
        uncovered: What nobody pays of each part.
    """

    sources: tuple[SourceDraw, ...]
    parts: tuple[LinePart, ...]
    draws: tuple[Draw, ...]
    uncovered: Mapping[PartKey, Decimal]


@dataclass(frozen=True, slots=True)
class DrawTerms:
    """What the bill says of draw-downs.

    Attributes:
        places: Decimals of the billing currency.
        zone: The time zone of days.
        order: The kinds that pay, in their order.
    """

    places: int
    zone: tzinfo
    order: tuple[BillCreditType, ...] = DEFAULT_ORDER


def draw_down(
    lines: Iterable[PayableLine], sources: Iterable[CreditSource], terms: DrawTerms
) -> DrawDowns:
    """Let sources pay for the lines of a bill.

    Raises:
        CannotBill: A source has no rate to the billing currency, and something to pay.
    """
    ordered = order_sources(sources, terms.order)
    parts = tuple(cut_lines(lines, ordered, terms)) if ordered else ()
    uncovered = {part.key: part.amount for part in parts}
    with exact():
        paying, drawn = _draw_all(ordered, parts, uncovered, terms)
        # Let the first source that may be overdrawn pay for what every source left.
        of_source = {
            source.key: each for source, each in zip(paying, drawn, strict=True) if source.overdraft
        }
        for part in parts:
            payer = next((key for key in part.payers if key in of_source), None)
            if payer is not None and uncovered[part.key]:
                of_source[payer].overdraft[part.key] = uncovered[part.key]
                uncovered[part.key] = ZERO
        settled = [_settle(source, each) for source, each in zip(paying, drawn, strict=True)]
    return DrawDowns(
        tuple(each for each, _ in settled),
        parts,
        tuple(draw for _, draws in settled for draw in draws),
        uncovered,
    )


def order_sources(
    sources: Iterable[CreditSource], order: Sequence[BillCreditType] = DEFAULT_ORDER
) -> list[CreditSource]:
    """The sources that pay, in the order in which they do: by kind, end, start, creation, id."""

    def key(source: CreditSource) -> tuple[Any, ...]:
        period = source.period
        return order.index(source.kind), period.end, period.start, source.created, source.key

    return sorted((each for each in sources if each.kind in order), key=key)


def cut_lines(
    lines: Iterable[PayableLine], sources: Sequence[CreditSource], terms: DrawTerms
) -> Iterator[LinePart]:
    """The parts of lines for which there is something to pay, in the bill's order."""
    ordered = sorted(lines, key=lambda line: line.number)
    payable = payable_amounts(ordered, terms.places)
    for line in ordered:
        if payable.get(line.number, ZERO) > 0:
            payers = [each for each in sources if each.may_pay(line)]
            yield from _cut(line, payable[line.number], payers, terms)


def payable_amounts(lines: Sequence[PayableLine], places: int) -> dict[int, Decimal]:
    """What there is to pay of each line above 0, after negative lines lowered them."""
    found = {line.number: line.amount for line in lines if line.amount > 0}
    for line in lines:
        if line.amount < 0:
            numbers = [each for each in found if not line.covers or each in line.covers]
            with exact():
                lowered = lower_by_weights([found[each] for each in numbers], -line.amount, places)
            found.update(zip(numbers, lowered, strict=True))
    return found


def _cut(
    line: PayableLine, amount: Decimal, payers: Sequence[CreditSource], terms: DrawTerms
) -> Iterator[LinePart]:
    periods = cut_period(line.period, payers)
    # Most lines are paid for as a whole: what would divide them is not looked at.
    weights = [weight_of(line, each, terms.zone) for each in periods] if len(periods) > 1 else ()
    if not weights or max(weights) <= 0:
        # What no day and no unit divides belongs to where it starts.
        start = line.period.start
        yield _part(line, 0, line.period, amount, [each for each in payers if start in each.period])
        return
    shares = split_by_weights(amount, weights, terms.places)
    for number, (period, share) in enumerate(zip(periods, shares, strict=True)):
        if share:
            yield _part(
                line, number, period, share, [each for each in payers if each.holds(period)]
            )


def _part(
    line: PayableLine, number: int, period: Period, amount: Decimal, payers: Iterable[CreditSource]
) -> LinePart:
    keys = tuple(each.key for each in payers)
    return LinePart(PartKey(line.number, number), line.type, period, amount, keys)


def cut_period(whole: Period, payers: Sequence[CreditSource]) -> list[Period]:
    """A period cut at every start and end of those who may pay for it."""
    if all(each.holds(whole) for each in payers):
        return [whole]
    bounds = {bound for each in payers for bound in (each.period.start, each.period.end)}
    inner = sorted(bound for bound in bounds if whole.start < bound < whole.end)
    if not inner:
        return [whole]
    starts, ends = [whole.start, *inner], [*inner, whole.end]
    return [Period(start, end) for start, end in zip(starts, ends, strict=True)]


def weight_of(line: PayableLine, period: Period, zone: tzinfo) -> Weight:
    """What a part of a line weighs: usage by its units, other lines by days."""
    if line.units_of is None:
        return count_days(period, zone)
    return line.units_of(period) or ZERO


@dataclass(slots=True)
class _Drawn:
    """What one source pays, part by part.

    Attributes:
        posted: What it gives for what is usual, in its own currency.
        exhausted: Whether nothing is left of it then.
    """

    usual: dict[PartKey, Decimal] = field(default_factory=dict)
    overdraft: dict[PartKey, Decimal] = field(default_factory=dict)
    posted: Decimal = ZERO
    exhausted: bool = False


def _draw_all(
    sources: Sequence[CreditSource],
    parts: Sequence[LinePart],
    uncovered: dict[PartKey, Decimal],
    terms: DrawTerms,
) -> tuple[list[CreditSource], list[_Drawn]]:
    """Let one source after the other pay; what a balance gives is gone for its rollover."""
    paying, drawn = [], []
    left: dict[str, Decimal] = {}
    own: dict[str, _Drawn] = {}
    for each in sources:
        rest = left.get(each.id, each.left) if each.rollover else each.left
        source = each if rest >= each.left else replace(each, left=min(each.left, max(rest, ZERO)))
        found = _draw(source, parts, uncovered, terms)
        _post(source, found, terms)
        left[source.id] = source.left - found.posted
        if source.rollover and source.id in own:
            # They share the money: what one takes may be the last of the other.
            own[source.id].exhausted |= _is_too_little(source, left[source.id], terms)
        elif not source.rollover:
            own[source.id] = found
        paying.append(source)
        drawn.append(found)
    return paying, drawn


def _draw(
    source: CreditSource,
    parts: Sequence[LinePart],
    uncovered: dict[PartKey, Decimal],
    terms: DrawTerms,
) -> _Drawn:
    """Let one source pay for what those before it left."""
    drawn = _Drawn()
    if source.left <= 0:
        return drawn
    own = [part.key for part in parts if source.key in part.payers and uncovered[part.key]]
    if not own:
        return drawn
    capacity = round_amount(source.left * _rate(source), terms.places, RoundingMode.DOWN)
    for key in own:
        amount = min(uncovered[key], capacity)
        if amount > 0:
            drawn.usual[key] = amount
            uncovered[key] -= amount
            capacity -= amount
    return drawn


def _post(source: CreditSource, drawn: _Drawn, terms: DrawTerms) -> None:
    """Say what a source gives in its own currency, and whether that is all of it."""
    usual = sum(drawn.usual.values(), ZERO)
    drawn.posted = min(in_own_currency(source, usual), source.left) if usual else ZERO
    rest = source.left - drawn.posted
    if _is_too_little(source, rest, terms):
        # What is worth less than the bill's smallest unit pays for nothing: it is given, too.
        drawn.exhausted = True
        drawn.posted = source.left if usual else ZERO


def _is_too_little(source: CreditSource, rest: Decimal, terms: DrawTerms) -> bool:
    """Whether what is left of a source pays for nothing."""
    if source.rate is None:
        return rest <= 0
    return rest * source.rate < ONE.scaleb(-terms.places)


def _settle(source: CreditSource, drawn: _Drawn) -> tuple[SourceDraw, list[Draw]]:
    """What a source pays with its overdraft, and what is left of it."""
    usual, over = sum(drawn.usual.values(), ZERO), sum(drawn.overdraft.values(), ZERO)
    posted = drawn.posted + (in_own_currency(source, over) if over else ZERO)
    # What paid before had something, also if the balance was overdrawn since.
    had_something = source.was_filled or source.left > 0 or source.drawn_before > 0
    exhausted = drawn.exhausted and had_something
    result = SourceDraw(source, usual + over, posted, source.left - posted, exhausted)
    return result, list(_draws(source, drawn, posted))


def _draws(source: CreditSource, drawn: _Drawn, posted: Decimal) -> Iterator[Draw]:
    amounts: dict[PartKey, Decimal] = defaultdict(lambda: ZERO)
    for found in (drawn.usual, drawn.overdraft):
        for key, amount in found.items():
            amounts[key] += amount
    if not amounts:
        return
    keys = sorted(amounts)
    weights = [amounts[key] for key in keys]
    places = decimals(posted, source.places)
    # Most sources are of the bill's currency: there is nothing to split.
    same = sum(weights, ZERO) == posted and all(decimals(each, 0) <= places for each in weights)
    shares = weights if same else split_by_weights(posted, weights, places)
    for key, share in zip(keys, shares, strict=True):
        yield Draw(source.key, key, amounts[key], share)


def in_own_currency(source: CreditSource, amount: Decimal) -> Decimal:
    """An amount of the billing currency in the currency of a source, rounded as that is."""
    rate = _rate(source)
    scale = decimals(rate, 0)
    try:
        return round_quotient(
            amount.scaleb(scale), int(rate.scaleb(scale)), source.places, source.mode
        )
    except Inexact:
        text = f"{source.name} cannot pay an amount with more than {source.places} decimals"
        raise CannotBill(
            f"{text} in its own currency, which is not rounded;"
            " give that more decimals or a rounding mode"
        ) from None


def _rate(source: CreditSource) -> Decimal:
    if source.rate is None:
        text = f"the organization has no conversion rate from the currency of {source.name}"
        raise CannotBill(f"{text} to that of the bill; add it to currencyConversions")
    return source.rate
