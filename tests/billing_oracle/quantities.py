"""What was used: quantities of aggregations, read from all measurements each time."""

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from typing import Any

from tests.billing_oracle.money import exact, quotient
from tests.billing_oracle.periods import Clock, Window
from tests.billing_oracle.world import CannotBill, Row, World, find

NUMBERS = ("measure", "cost", "income")
TEXTS = ("who", "what", "where", "other", "metadata")
_REFERENCE = re.compile(r"aggregation\.([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Member:
    """An account whose usage counts, and when it does."""

    account: Row
    windows: tuple[Window, ...]

    def counts_at(self, moment: datetime) -> bool:
        return any(window.start <= moment < window.end for window in self.windows)


@dataclass(frozen=True)
class Scope:
    """Whose usage is counted as one, and the usage filters of the contract."""

    members: tuple[Member, ...]
    filters: tuple[Row, ...] = ()

    def of(self, member: Member) -> "Scope":
        """The same for one member alone."""
        return replace(self, members=(member,))


def _text(measurement: Row, field: str) -> str | None:
    for category in TEXTS:
        value = (measurement.get(category) or {}).get(field)
        if value is not None:
            return str(value)
    return None


def _value(measurement: Row, field: str) -> Fraction | str | None:
    for category in NUMBERS:
        value = (measurement.get(category) or {}).get(field)
        if value is not None:
            return exact(value)
    return _text(measurement, field)


def passes(measurement: Row, filters: Sequence[Row]) -> bool:
    """INCLUDE values are an OR within a dimension, AND across dimensions; EXCLUDE removes after that."""
    included: dict[str, set[str]] = {}
    for row in filters:
        value = _text(measurement, row["dimensionCode"])
        if row["mode"] == "INCLUDE":
            included.setdefault(row["dimensionCode"], set()).add(row["value"])
        elif value == row["value"]:
            return False
    return all(_text(measurement, field) in values for field, values in included.items())


def segment_of(measurement: Row, aggregation: Row) -> Row | None:
    """The segment of a measurement: exact beats `*`, more exact fields beat fewer, then the earlier field."""
    fields = aggregation.get("segmentedFields") or ()
    best: tuple[int, list[bool]] = (-1, [])
    found = None
    for segment in aggregation.get("segments") or ():
        patterns = [segment.get(field, "*") for field in fields]
        values = [_text(measurement, field) for field in fields]
        if all(p in ("*", v) for p, v in zip(patterns, values, strict=True)):
            precise = [pattern != "*" for pattern in patterns]
            if (sum(precise), precise) > best:
                best, found = (sum(precise), precise), segment
    return found


def is_segmented(aggregation: Row) -> bool:
    return bool(aggregation.get("segmentedFields"))


def items_of(row: Row | None) -> tuple[Any, ...]:
    return tuple(sorted((row or {}).items()))


def same_segment(left: Row | None, right: Row | None) -> bool:
    return dict(left or {}) == dict(right or {})


Sample = tuple[datetime, str, Any]


def _latest(samples: Sequence[Sample]) -> Fraction:
    return Fraction(max(samples, key=lambda sample: sample[:2])[2])


def _total(samples: Sequence[Sample]) -> Fraction:
    return sum((value for _, _, value in samples), Fraction(0))


REDUCERS: dict[str, Callable[[Sequence[Sample]], Fraction]] = {
    "SUM": _total,
    "MIN": lambda samples: min(value for _, _, value in samples),
    "MAX": lambda samples: max(value for _, _, value in samples),
    "COUNT": lambda samples: Fraction(len(samples)),
    "LATEST": _latest,
    "MEAN": lambda samples: quotient(_total(samples), len(samples)),
    "UNIQUE": lambda samples: Fraction(len({value for _, _, value in samples})),
}


@dataclass(frozen=True)
class Usage:
    """All measurements, and the ways to ask for a quantity."""

    world: World
    clock: Clock
    known: dict[Any, list[Sample]] = field(default_factory=dict)

    @cached_property
    def measurements(self) -> list[tuple[datetime, Row]]:
        """All measurements with their instants."""
        return [(self.clock.instant(row["ts"]), row) for row in self.world.measurements]

    def _samples(self, aggregation: Row, segment: Row | None, scope: Scope) -> list[Sample]:
        """The values of an aggregation's field; read once, since many windows ask for them."""
        members = tuple((member.account["id"], member.windows) for member in scope.members)
        key = (aggregation["id"], items_of(segment), members, tuple(map(items_of, scope.filters)))
        if key not in self.known:
            self.known[key] = self._read(aggregation, segment, scope)
        return self.known[key]

    def _read(self, aggregation: Row, segment: Row | None, scope: Scope) -> list[Sample]:
        meter = find(self.world.meters, aggregation["meterId"])["code"]
        members = {member.account["code"]: member for member in scope.members}
        found = []
        for ts, row in self.measurements:
            value = _value(row, aggregation["targetField"])
            member = members.get(row["account"])
            if row["meter"] != meter or value is None or member is None:
                continue
            fits = not is_segmented(aggregation) or (
                segment_of(row, aggregation) is not None
                and same_segment(segment_of(row, aggregation), segment)
            )
            if fits and member.counts_at(ts) and passes(row, scope.filters):
                found.append((ts, row["uid"], value))
        return found

    def simple(
        self, aggregation: Row, segment: Row | None, scope: Scope, window: Window
    ) -> Fraction | None:
        """The quantity of a simple aggregation; None without usage."""
        samples = [
            sample
            for sample in self._samples(aggregation, segment, scope)
            if window.start <= sample[0] < window.end
        ]
        return REDUCERS[aggregation["aggregation"]](samples) if samples else None

    def _simple_or_default(
        self, aggregation: Row, segment: Row | None, scope: Scope, window: Window
    ) -> Fraction | None:
        found = self.simple(aggregation, segment, scope, window)
        default = aggregation.get("defaultValue")
        return exact(default) if found is None and default is not None else found

    def _inputs(self, compound: Row) -> list[Row]:
        codes = compound.get("references")
        if codes is None:
            codes = dict.fromkeys(_REFERENCE.findall(compound["calculation"]))
        by_code = {row["code"]: row for row in self.world.aggregations}
        return [by_code[code] for code in codes]

    def _compound(
        self, compound: Row, segment: Row | None, scope: Scope, window: Window
    ) -> Fraction | None:
        """The value of a compound: of base values; null inputs give none unless they are to be evaluated."""
        values = {
            row["code"]: self._simple_or_default(row, segment, scope, window)
            for row in self._inputs(compound)
        }
        if None in values.values() and not compound.get("evaluateNullAggregations"):
            return None
        calculate = compound.get("calculate")
        return calculate(values) if calculate else evaluate(compound["calculation"], values)

    def quantity(
        self, metric: Row, segment: Row | None, scope: Scope, window: Window
    ) -> Fraction | None:
        """The quantity that is priced, with default values; None: there is no line."""
        if is_compound(metric):
            return self._compound(metric, segment, scope, window)
        return self._simple_or_default(metric, segment, scope, window)

    def own_quantity(
        self, metric: Row, segment: Row | None, scope: Scope, window: Window
    ) -> Fraction | None:
        """The quantity without any default value, unless something else of a compound was used."""
        if not is_compound(metric):
            return self.simple(metric, segment, scope, window)
        inputs = self._inputs(metric)
        used = [self.simple(row, segment, scope, window) for row in inputs]
        if all(value is None for value in used):
            return None
        return self._compound(metric, segment, scope, window)


def is_compound(metric: Row) -> bool:
    return "calculation" in metric or "calculate" in metric


_OPERATIONS: dict[type, Callable[[Fraction, Fraction], Fraction | None]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: quotient(left, right) if right else None,
}


def evaluate(calculation: str, values: Mapping[str, Fraction | None]) -> Fraction | None:
    """An expression of numbers, `aggregation.<code>`, + - * / and parentheses; null in, null out."""
    return _evaluate(ast.parse(calculation.strip(), mode="eval").body, values)


def _evaluate(node: ast.expr, values: Mapping[str, Fraction | None]) -> Fraction | None:
    if isinstance(node, ast.Constant):
        return exact(node.value)
    if isinstance(node, ast.Attribute):
        return values[node.attr]
    if isinstance(node, ast.UnaryOp):
        inner = _evaluate(node.operand, values)
        return -inner if inner is not None and isinstance(node.op, ast.USub) else inner
    if not isinstance(node, ast.BinOp):
        raise CannotBill(f"the oracle cannot calculate {ast.unparse(node)}")
    left, right = _evaluate(node.left, values), _evaluate(node.right, values)
    if left is None or right is None:
        return None
    return _OPERATIONS[type(node.op)](left, right)
