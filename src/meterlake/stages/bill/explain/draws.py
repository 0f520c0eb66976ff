"""Draw-downs: which source pays which part of which line, and what of it is left."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, Self

from meterlake.model.bills.explanation import DerivationRule, ExplainedNumber, number_of
from meterlake.model.bills.ledger import Movement
from meterlake.model.customers.balances import rollover_of
from meterlake.model.customers.contracts import Commitment
from meterlake.model.values.money import ONE, ZERO, RoundingMode, exact, round_amount
from meterlake.stages.bill.credits.draw_downs import (
    Draw,
    DrawDowns,
    LinePart,
    PartKey,
    PayableLine,
    SourceDraw,
    SourceKey,
    cut_period,
    in_own_currency,
    payable_amounts,
    weight_of,
)
from meterlake.stages.bill.credits.funds import BillMoment, count_movements
from meterlake.stages.bill.explain.context import ExplainedBill, period_facts
from meterlake.stages.bill.explain.numbers import (
    cite,
    derive,
    multiply,
    refer,
    refer_by_key,
    round_to,
    split_part,
    subtract,
    total,
    with_key,
)


@dataclass(slots=True)
class DrawExplainer:
    """Explains what sources pay on a bill.

    Attributes:
        usual: What sources pay of parts, but for overdrafts; worked out once.
    """

    bill: ExplainedBill
    usual: dict[tuple[SourceKey, PartKey], Decimal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rest = {part.key: part.amount for part in self.drawn.parts}
        for paid in self.drawn.sources:
            if paid.source.left <= 0 or paid.source.rate is None:
                capacity = ZERO
            else:
                with exact():
                    capacity = round_amount(
                        paid.source.left * paid.source.rate, self.bill.places, RoundingMode.DOWN
                    )
            for part in self.drawn.parts:
                if paid.source.key in part.payers and rest[part.key]:
                    amount = min(rest[part.key], capacity)
                    if amount > 0:
                        self.usual[paid.source.key, part.key] = amount
                        with exact():
                            rest[part.key] -= amount
                            capacity -= amount

    @property
    def drawn(self) -> DrawDowns:
        """What sources pay."""
        found = self.bill.draft.drawn
        return DrawDowns((), (), (), {}) if found is None else found

    def line(self, paid: SourceDraw) -> ExplainedNumber:
        """What a source pays on the bill, as a line of it."""
        own = [each for each in self.drawn.draws if each.source == paid.source.key]
        draws = [self._draw(paid, each) for each in own]
        currency = self.bill.currency
        found = total("paid", draws, currency)
        return derive("paid for the customer", DerivationRule.NEGATIVE, (found,), currency)

    def explain_source(self, paid: SourceDraw) -> Iterator[ExplainedNumber]:
        """What a source gives in its own currency, and what of it is left."""
        assert self.bill.draft.sources is not None
        currency = self.bill.draft.sources.records[paid.source.id].entity.currency
        posted = cite("given", paid.posted, currency)
        yield subtract("left after", self._explain_left(paid), [posted], currency)

    def explain_uncovered_part(self, part_key: PartKey) -> ExplainedNumber:
        """What every source left of a part of a line."""
        part = next(each for each in self.drawn.parts if each.key == part_key)
        draws = [each for each in self.drawn.draws if each.part == part_key]
        return subtract(
            "left uncovered",
            self._part(part),
            [
                refer_by_key(
                    "paid by a source",
                    each.amount,
                    self.bill.currency,
                    _draw_key(each.source, each.part),
                )
                for each in draws
            ],
            self.bill.currency,
        )

    def _draw(self, paid: SourceDraw, draw: Draw) -> ExplainedNumber:
        part = next(each for each in self.drawn.parts if each.key == draw.part)
        usual = self.usual.get((paid.source.key, part.key), ZERO)
        found = [self._explain_usual(paid, part)] if usual else []
        if draw.amount != usual:
            before = [
                self._refer_usual(each)
                for each in self.drawn.draws
                if each.part == part.key and self.usual.get(each[:2])
            ]
            name, currency = "overdraft: left by all sources", self.bill.currency
            found.append(subtract(name, self._part(part), before, currency))
        line = self.bill.lines_by_number()[part.key.line].line
        name = f"of line {line.sequence_number} {line.type} {line.description}"
        facts = {"line": line.key, "period": period_facts(part.period), "posted": draw.posted}
        key = _draw_key(draw.source, draw.part)
        return total(name, found, self.bill.currency, key, **facts)

    def _explain_usual(self, paid: SourceDraw, part: LinePart) -> ExplainedNumber:
        """What a source pays of a part: what is left of the part, at most what is left of it."""
        source, currency = paid.source, self.bill.currency
        before = [
            each for each in self.drawn.draws if each.part == part.key and each.source != source.key
        ]
        order = [each.source.key for each in self.drawn.sources]
        place = order.index(source.key)
        earlier = [each for each in before if order.index(each.source) < place]
        usual = [self._refer_usual(each) for each in earlier if self.usual.get(each[:2])]
        rest = subtract("left to pay", self._part(part), usual, currency)
        spent = [
            refer_by_key("paid before", amount, currency, _usual_key(*payment))
            for payment, amount in self.usual.items()
            if payment[0] == source.key and payment[1] < part.key
        ]
        left = subtract("left of the source", self._capacity_of(paid), spent, currency)
        key = _usual_key(source.key, part.key)
        return derive("paid", DerivationRule.MINIMUM, (rest, left), currency, key)

    def _refer_usual(self, draw: Draw) -> ExplainedNumber:
        amount = self.usual[draw.source, draw.part]
        key = _usual_key(draw.source, draw.part)
        return refer_by_key("paid by a source before", amount, self.bill.currency, key)

    def _capacity_of(self, paid: SourceDraw) -> ExplainedNumber:
        """What a source can pay in the billing currency, before it pays anything on the bill."""
        source, currency = paid.source, self.bill.currency
        key = f"capacity {_name(source.key)}"

        def explain() -> ExplainedNumber:
            left = self._explain_left(paid)
            assert source.rate is not None
            if source.rate != ONE:
                left = multiply("worth", left, cite("conversion rate", source.rate), unit=currency)
            rounding = self.bill.places, RoundingMode.DOWN
            return with_key(round_to("can pay", left, rounding, currency), key)

        return self.bill.explain_once(key, explain)

    def _explain_left(self, paid: SourceDraw) -> ExplainedNumber:
        """What is left of a source for the bill, in its own currency."""
        key = f"left {_name(paid.source.key)}"
        return self.bill.explain_once(key, lambda: with_key(self._funds(paid), key))

    def _funds(self, paid: SourceDraw) -> ExplainedNumber:
        source = paid.source
        assert self.bill.draft.sources is not None
        entity = self.bill.draft.sources.records[source.id].entity
        movements = self.bill.made.movements.get(source.id, ())
        moment = BillMoment(self.bill.draft.bill.key.rank, self.bill.inputs.zone)
        if isinstance(entity, Commitment):
            counted = [each for each in movements if moment.counts(each)]
            amount = cite("amount of the commitment", entity.amount, entity.currency)
            return total("left", (amount, *_movements(counted, entity.currency)), entity.currency)
        own, others = count_movements(entity, movements, moment)
        currency = entity.currency
        if not source.rollover:
            found = total("left", _movements([*own, *others], currency), currency)
        else:
            credited = total("left at the end", _movements(own, currency), currency)
            nothing = cite("never below", ZERO, currency)
            carried = derive(
                "left at the end", DerivationRule.MAXIMUM, (credited, nothing), currency
            )
            if entity.rollover_amount is not None:
                limit = cite("rolloverAmount", entity.rollover_amount, currency)
                carried = derive("carried over", DerivationRule.MINIMUM, (carried, limit), currency)
            assert carried.value == rollover_of(entity, max(credited.value or ZERO, ZERO))
            found = total("left", (carried, *_movements(others, currency)), currency)
        return self._after_own(paid, found) if source.rollover else found

    def _after_own(self, paid: SourceDraw, carried: ExplainedNumber) -> ExplainedNumber:
        """What is carried over, at most what the balance itself leaves on this bill."""
        own = next(
            (
                each
                for each in self.drawn.sources
                if each.source.id == paid.source.id and not each.source.rollover
            ),
            None,
        )
        if own is None or paid.source.left == carried.value:
            return carried
        # An overdraft is drawn after all that is usual.
        with exact():
            over = sum(
                (
                    each.amount - self.usual.get((each.source, each.part), ZERO)
                    for each in self.drawn.draws
                    if each.source == own.source.key
                ),
                ZERO,
            )
        overdraft = in_own_currency(own.source, over) if over else ZERO
        with exact():
            posted = own.posted - overdraft
        unit = carried.unit
        left = subtract(
            "left of the balance",
            self._explain_left(own),
            [cite("given by the balance itself", posted, unit)] if posted else [],
            unit,
        )
        nothing = cite("never below", ZERO, unit)
        rest = derive("left of the balance", DerivationRule.MAXIMUM, (left, nothing), unit)
        return derive("left", DerivationRule.MINIMUM, (carried, rest), unit)

    def _part(self, part: LinePart) -> ExplainedNumber:
        """What there is to pay of a part of a line."""
        key = f"part {part.key.part} of line {part.key.line}"
        return self.bill.explain_once(
            key, lambda: with_key(self._split_line(part), key, "to pay of the part")
        )

    def _split_line(self, part: LinePart) -> ExplainedNumber:
        line = next(each for each in self.bill.draft.payable if each.number == part.key.line)
        payers = [each.source for each in self.drawn.sources if each.source.may_pay(line)]
        periods = cut_period(line.period, payers)
        zone = self.bill.inputs.zone
        weights = [weight_of(line, each, zone) for each in periods] if len(periods) > 1 else []
        whole = self._payable(line)
        if not weights or max(weights) <= 0:
            return total("whole line", (whole,), self.bill.currency)
        name = "days" if line.units_of is None else "units"
        counted = [
            cite(
                f"{name} {period.start.isoformat()} to {period.end.isoformat()}",
                number_of(Fraction(weight))[0],
            )
            for period, weight in zip(periods, weights, strict=True)
        ]
        positive = [each for each in counted if each.exact > 0]
        all_weights = total("of all parts", positive)
        own = counted[part.key.part]
        return split_part("part", whole, (own, all_weights), part.amount, self.bill.places)

    def _payable(self, line: PayableLine) -> ExplainedNumber:
        """What there is to pay of a line, after negative lines lowered it."""
        key = f"payable line {line.number}"

        def explain() -> ExplainedNumber:
            lowered = list(self._explain_lowering(line))
            name, currency = "to pay of the line", self.bill.currency
            rule = DerivationRule.DIFFERENCE if lowered else DerivationRule.SUM
            return derive(name, rule, (self._refer(line), *lowered), currency, key)

        return self.bill.explain_once(key, explain)

    def _refer(self, line: PayableLine) -> ExplainedNumber:
        """A line of the bill, or a credit that a person put on it."""
        finished = self.bill.lines_by_number().get(line.number)
        found = None if finished is None else self.bill.refer_line(finished.draft)
        return found or cite("credit on the line", line.amount, self.bill.currency)

    def _explain_lowering(self, line: PayableLine) -> Iterator[ExplainedNumber]:
        """What negative lines take from what there is to pay of a line, one after the other."""
        lines = sorted(self.bill.draft.payable, key=lambda each: each.number)
        found: list[ExplainedNumber] = []
        for number, negative in enumerate(lines):
            if negative.amount < 0 and (not negative.covers or line.number in negative.covers):
                lowering = _Lowering.of(lines, number, self.bill.places)
                taken = [refer(each) for each in found]
                here = subtract("to pay before", self._refer(line), taken, self.bill.currency)
                key = f"lowered line {line.number} by {negative.number}"
                found.append(with_key(self._lower(lowering, line, here), key))
        return iter(found)

    def _lower(
        self, lowering: "_Lowering", line: PayableLine, here: ExplainedNumber
    ) -> ExplainedNumber:
        currency, negative = self.bill.currency, self._refer(lowering.negative)
        reduction = derive("to lower by", DerivationRule.NEGATIVE, (negative,), currency)
        if lowering.is_all:
            return derive("lowered", DerivationRule.MINIMUM, (here, reduction), currency)
        counted = [
            cite(f"to pay of line {each}", amount, currency)
            for each, amount in lowering.before.items()
        ]
        weights = here, total("to pay of its lines", counted, currency)
        with exact():
            value = lowering.before[line.number] - lowering.after[line.number]
        return split_part("lowered", reduction, weights, value, self.bill.places)


class _Lowering(NamedTuple):
    """What a negative line does to the lines that it lowers, by their numbers."""

    negative: PayableLine
    before: Mapping[int, Decimal]
    after: Mapping[int, Decimal]

    @classmethod
    def of(cls, lines: Sequence[PayableLine], number: int, places: int) -> Self:
        """The lowering by one of the lines."""
        negative, positive = lines[number], [each for each in lines if each.amount > 0]
        before, after = (
            payable_amounts(
                [*positive, *[each for each in lines[:until] if each.amount < 0]], places
            )
            for until in (number, number + 1)
        )
        own = {
            id_: each
            for id_, each in before.items()
            if not negative.covers or id_ in negative.covers
        }
        return cls(negative, own, after)

    @property
    def is_all(self) -> bool:
        """Whether nothing is left to pay of any of them."""
        with exact():
            return -self.negative.amount >= sum(self.before.values(), ZERO)


def _movements(movements: Sequence[Movement], currency: str) -> Iterator[ExplainedNumber]:
    for each in movements:
        bill = None if each.bill is None else each.bill.bill_date.isoformat()
        applied = None if each.applied is None else each.applied.isoformat()
        name = each.kind.value if bill is None else f"{each.kind.value} of the bill of {bill}"
        yield cite(name, each.change, currency, applied=applied)


def _name(key: SourceKey) -> str:
    return f"{key.id}{'/rollover' if key.rollover else ''}"


def _draw_key(source: SourceKey, part: PartKey) -> str:
    return f"draw {_name(source)} {part.line}/{part.part}"


def _usual_key(source: SourceKey, part: PartKey) -> str:
    return f"usual {_name(source)} {part.line}/{part.part}"
