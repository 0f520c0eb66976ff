"""Where a number of a bill comes from: a tree in which each number follows from those below it.

A node names the rule by which its number follows from its operands, so that anybody can calculate
it again with nothing but the tree. Numbers are exact: a quotient that does not end is a fraction,
of which the decimals are cut for the eye.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import reduce
from operator import mul
from typing import Any, Final

from meterlake.model.bills.bill import Quantity
from meterlake.model.values.money import divide, exact, plain

# How many measurements of each quantity are shown, usually and at most.
ROWS_SHOWN: Final = 20
ROWS_SHOWN_MAX: Final = 1000


class DerivationRule(StrEnum):
    """How a number follows from its operands.

    `round` goes to the decimals and by the mode of its options, `quotient` with the option `digits`
    is rounded half-even to so many digits if it does not end. `bands` is the sum of its operands
    after the first, which is what the bands cut. `slice` is the part of another number, named by
    the option `of`, between two limits; `same` is that number. `inverse` are the units for which
    the bands of its options charge its operand. `given`, `measured` and `calculation` begin:
    with the configuration, with measurements, and with the numbers that a formula names.
    """

    GIVEN = "given"
    MEASURED = "measured"
    CALCULATION = "calculation"
    SAME = "same"
    SUM = "sum"
    DIFFERENCE = "difference"
    PRODUCT = "product"
    QUOTIENT = "quotient"
    NEGATIVE = "negative"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    ROUND = "round"
    BANDS = "bands"
    SLICE = "slice"
    INVERSE = "inverse"


# What these rules give of the exact values of their operands; others need more than that.
RULES: Final[Mapping[DerivationRule, Callable[[Sequence[Fraction]], Fraction]]] = {
    DerivationRule.SUM: lambda numbers: sum(numbers, Fraction(0)),
    DerivationRule.DIFFERENCE: lambda numbers: numbers[0] - sum(numbers[1:], Fraction(0)),
    DerivationRule.PRODUCT: lambda numbers: reduce(mul, numbers, Fraction(1)),
    DerivationRule.QUOTIENT: lambda numbers: numbers[0] / numbers[1],
    DerivationRule.NEGATIVE: lambda numbers: -numbers[0],
    DerivationRule.MINIMUM: min,
    DerivationRule.MAXIMUM: max,
    DerivationRule.BANDS: lambda numbers: sum(numbers[1:], Fraction(0)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedNumber:
    """One number of a bill.

    Attributes:
        name: What it is, for people.
        value: The number; None where a formula has no value of a part.
        unit: What it is a number of: a currency, days, or a unit of usage.
        operands: The numbers that it follows from, in the order of its rule.
        options: What the rule needs beside them: `places`, `mode`, `digits`, `lower`, `upper`, `of`.
        facts: What is known of it: versions of entities, periods, the SQL that was run.
        beside: Numbers that belong to it, from which it does not follow.
        key: Its name for `of` of other numbers; None if none refers to it.
        fraction: The exact number, if its decimals do not end.
        measurements: The first of the measurements behind it, with file and row.
        more: Whether there are others.
        days: What each day alone comes to, with its measurements, if somebody asked for that.
        source: The quantity that was measured, for who looks up its measurements; not shown.
    """

    name: str
    value: Decimal | None
    unit: str = ""
    rule: DerivationRule = DerivationRule.GIVEN
    operands: tuple["ExplainedNumber", ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple["ExplainedNumber", ...] = ()
    key: str | None = None
    fraction: Fraction | None = None
    measurements: Sequence[Mapping[str, Any]] = ()
    more: bool = False
    days: Sequence[Mapping[str, Any]] = ()
    source: Quantity | None = field(default=None, compare=False)

    @property
    def exact(self) -> Fraction:
        """The number with all its digits."""
        assert self.value is not None, self.name
        return Fraction(self.value) if self.fraction is None else self.fraction

    def walk(self) -> Iterator["ExplainedNumber"]:
        """It and all numbers below and beside it, from top to bottom."""
        yield self
        for each in (*self.operands, *self.beside):
            yield from each.walk()

    def map(self, function: "Callable[[ExplainedNumber], ExplainedNumber]") -> "ExplainedNumber":
        """The tree with every number as a function makes it, from bottom to top."""
        operands, beside = (
            tuple(each.map(function) for each in found) for found in (self.operands, self.beside)
        )
        return function(replace(self, operands=operands, beside=beside))

    def to_wire(self) -> dict[str, Any]:
        """The tree as plain data; numbers are texts."""
        found = {
            "name": self.name,
            "value": None if self.value is None else plain(self.value),
            "exact": None if self.fraction is None else str(self.fraction),
            "unit": self.unit,
            "rule": self.rule.value,
            "options": {name: _plain(each) for name, each in self.options.items()},
            "key": self.key,
            "facts": {name: _plain(each) for name, each in self.facts.items()},
            "children": [each.to_wire() for each in self.operands],
            "beside": [each.to_wire() for each in self.beside],
            "measurements": [dict(each) for each in self.measurements],
            "more": self.more,
            "days": [_plain(each) for each in self.days],
        }
        always = ("name", "value", "unit", "rule")
        return {name: each for name, each in found.items() if each or name in always}


@dataclass(frozen=True, slots=True)
class BillExplanation:
    """A bill, or a line of it, with all that its numbers follow from.

    Attributes:
        bill: What the bill says of itself: id, account, dates, currency, version and pins.
        root: The total, or the line.
        differences: What is stored and does not come out; nothing of an untouched bill.
    """

    bill: Mapping[str, Any]
    root: ExplainedNumber
    differences: Sequence[Mapping[str, Any]] = ()

    def to_wire(self) -> dict[str, Any]:
        """The explanation as plain data."""
        return {
            "bill": dict(self.bill),
            "same": not self.differences,
            "differences": [dict(each) for each in self.differences],
            "tree": self.root.to_wire(),
        }


def number_of(exact_value: Fraction) -> tuple[Decimal, Fraction | None]:
    """An exact number as decimals, and as a fraction if they do not end.

    >>> number_of(Fraction(1, 8)), number_of(Fraction(2, 3))
    ((Decimal('0.125'), None), (Decimal('0.66666666666666666667'), Fraction(2, 3)))
    """
    value = divide(Decimal(exact_value.numerator), Decimal(exact_value.denominator))
    with exact():
        value = Decimal(plain(value))
    return value, None if Fraction(value) == exact_value else exact_value


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
