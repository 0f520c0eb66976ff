"""Step 7: what commitments and balances pay of a bill."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import floor

from tests.billing_oracle.charges import Charge, bill_currency, make_charge
from tests.billing_oracle.ledger import COMMITMENT, Ledger, Source
from tests.billing_oracle.money import rate_between, round_money, smallest_unit, split
from tests.billing_oracle.periods import Clock, Window
from tests.billing_oracle.terms import BillKey
from tests.billing_oracle.world import CannotBill, World


@dataclass(eq=False)
class Part:
    """A part of a line in which the same sources hold, and what of it is still to be paid.

    Attributes:
        held: When a source has to hold to draw it: all the while, or at the start of an uncut line.
    """

    line: Charge
    window: Window
    left: Fraction
    held: Window


def may_draw(source: Source, line: Charge) -> bool:
    """Whether a source is for a line by type, product and contract; its time is not looked at."""
    if line.type not in source.line_types:
        return False
    products = source.row.get("productIds") or ()
    if products and (line.product is None or line.product["id"] not in products):
        return False
    contract = source.row.get("contractId")
    return not contract or contract == line.contract_id


def part_windows(line: Charge, sources: Sequence[Source]) -> list[Window]:
    """A line is cut once at every start and end of a source that may draw it."""
    cuts = {line.service.start, line.service.end}
    for source in sources:
        cuts |= {
            cut
            for cut in (source.window.start, source.window.end)
            if line.service.start < cut < line.service.end
        }
    edges = sorted(cuts)
    if len(edges) == 1:
        return [line.service]
    return [Window(start, end) for start, end in pairwise(edges)]


def part_weights(clock: Clock, line: Charge, windows: Sequence[Window]) -> list[Fraction]:
    """Usage is cut by the parts' units (a part without a value counts 0), the rest by days."""
    if line.type == "USAGE" and line.units_within is not None:
        units = [line.units_within(window) for window in windows]
        return [max(Fraction(0), value or Fraction(0)) for value in units]
    return [Fraction(clock.days(window.start, window.end)) for window in windows]


def cut(ledger: Ledger, line: Charge, amount: Fraction, sources: Sequence[Source]) -> list[Part]:
    """The parts of what is eligible of a line; it stays whole if nothing weighs."""
    world = ledger.book.world
    windows = part_windows(line, [source for source in sources if may_draw(source, line)])
    weights = part_weights(ledger.clock, line, windows)
    if not any(weights):
        start = line.service.start
        return [Part(line, line.service, amount, Window(start, start))]
    unit = smallest_unit(world, bill_currency(world, line.bill))
    amounts = split(amount, weights, unit)
    return [Part(line, window, part, window) for window, part in zip(windows, amounts, strict=True)]


@dataclass
class Draw:
    """What a source pays on one bill."""

    source: Source
    parts: list[tuple[Part, Fraction]]

    @property
    def amount(self) -> Fraction:
        return sum((amount for _, amount in self.parts), Fraction(0))

    @property
    def service(self) -> Window:
        windows = [part.window for part, _ in self.parts]
        return Window(min(w.start for w in windows), max(w.end for w in windows))


@dataclass
class DrawDown:
    """The draw-down of one bill: sources in their order, parts of lines in the bill's order."""

    ledger: Ledger
    bill: BillKey
    sources: Sequence[Source]
    parts: Sequence[Part]

    @property
    def world(self) -> World:
        return self.ledger.book.world

    @property
    def currency(self) -> str:
        return bill_currency(self.world, self.bill)

    def rate(self, source: Source) -> Fraction:
        """The rate from a source's currency; a source without one fails the account's bill."""
        try:
            return rate_between(self.world, source.row["currency"], self.currency)
        except CannotBill as error:
            raise CannotBill(f"{source.row['id']}: {error}") from None

    def reach(self, source: Source) -> list[Part]:
        """The parts that a source may draw and that are not fully paid."""
        return [
            part
            for part in self.parts
            if part.left > 0 and may_draw(source, part.line) and source.holds(part.held)
        ]

    def run(self) -> list[Draw]:
        """Every source in turn; then overdrafts for what every source left uncovered."""
        draws = [found for source in self.sources if (found := self.draw(source))]
        for source in self.sources:
            if source.has_overdraft and (parts := self.reach(source)):
                found = _draw_of(draws, source)
                taken = self.take(parts, sum((part.left for part in parts), Fraction(0)))
                found.parts += taken
                self.post(source, sum((amount for _, amount in taken), Fraction(0)))
        order = [source.identity for source in self.sources]
        return sorted(draws, key=lambda draw: order.index(draw.source.identity))

    def draw(self, source: Source) -> Draw | None:
        """What a source with something left pays; None if it pays nothing."""
        parts, left = self.reach(source), self.ledger.left(source, self.bill.date)
        if not parts or left <= 0:
            return None
        unit = smallest_unit(self.world, self.currency)
        available = floor(left * self.rate(source) / unit) * unit
        taken = self.take(parts, available)
        amount = sum((amount for _, amount in taken), Fraction(0))
        self.post_with_rest(source, amount, left)
        return Draw(source, taken) if taken else None

    def take(self, parts: Sequence[Part], available: Fraction) -> list[tuple[Part, Fraction]]:
        """Pay parts in order until nothing is available."""
        taken = []
        for part in parts:
            amount = min(part.left, available)
            if amount > 0:
                part.left -= amount
                available -= amount
                taken.append((part, amount))
        return taken

    def posted(self, source: Source, amount: Fraction) -> Fraction:
        """Another currency is posted as draw ÷ rate, rounded to the source's own places."""
        if source.row["currency"] == self.currency:
            return amount
        return round_money(self.world, amount / self.rate(source), source.row["currency"])

    def post(self, source: Source, amount: Fraction) -> None:
        self.ledger.draw(source, self.posted(source, amount), self.bill)

    def post_with_rest(self, source: Source, amount: Fraction, left: Fraction) -> None:
        """A source with less left than the bill's smallest unit gives that rest with what it draws."""
        if not amount:
            return
        posted = min(left, self.posted(source, amount))
        if self.is_too_little(source, left - posted):
            posted = left
        self.ledger.draw(source, posted, self.bill)

    def is_too_little(self, source: Source, left: Fraction) -> bool:
        """Whether what is left of a source is worth less than the bill's smallest unit."""
        if left <= 0:
            return True
        return left * self.rate(source) < smallest_unit(self.world, self.currency)

    def is_exhausted(self, source: Source) -> bool:
        """Whether a source had something and can give nothing more."""
        when = self.bill.date
        left = self.ledger.left(source, when)
        return self.ledger.had_something(source, when) and self.is_too_little(source, left)


def _draw_of(draws: list[Draw], source: Source) -> Draw:
    for draw in draws:
        if draw.source.identity == source.identity:
            return draw
    draws.append(Draw(source, []))
    return draws[-1]


def draw_line(world: World, bill: BillKey, draw: Draw, number: int) -> Charge:
    """One line per source."""
    is_commitment = draw.source.kind == COMMITMENT
    return make_charge(
        world,
        "COMMITMENT_CONSUMED" if is_commitment else "BALANCE_CONSUMED",
        bill,
        -draw.amount,
        bill_currency(world, bill),
        service=draw.service,
        source_id=draw.source.row["id"],
        level=number,
    )
