"""What a column of a calculation is, and the operators and functions between columns."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple, TypeAlias

import polars as pl

from meterlake.model.calculation.functions import TEXT_MAX
from meterlake.model.values.money import Rounding
from meterlake.stages.ingest.derive.numbers import NotProven, Num, align


class TextColumn(NamedTuple):
    """A column of texts; none has more than `longest` characters."""

    expr: pl.Expr
    longest: int
    ascii: bool


class Truth(NamedTuple):
    """A column of conditions."""

    expr: pl.Expr


class Moment(NamedTuple):
    """A column of naive UTC instants."""

    expr: pl.Expr


class Nothing(NamedTuple):
    """Null in every row."""

    expr: pl.Expr


Found: TypeAlias = Num | TextColumn | Truth | Moment | Nothing


def as_number(found: Found) -> Num:
    """A column as numbers.

    Raises:
        NotProven: It holds something else.
    """
    if not isinstance(found, Num):
        raise NotProven
    return found


def as_truth(found: Found) -> pl.Expr:
    """A column as conditions.

    Raises:
        NotProven: It holds something else.
    """
    if not isinstance(found, Truth):
        raise NotProven
    return found.expr


def either(first: Found, second: Found, pick: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Found:
    """One of two columns of the same kind in each row."""
    if isinstance(first, Nothing) or isinstance(second, Nothing):
        kept = second if isinstance(first, Nothing) else first
        expr = pick(values(first), values(second))
        return kept._replace(units=expr) if isinstance(kept, Num) else kept._replace(expr=expr)
    if type(first) is not type(second):
        raise NotProven
    if isinstance(first, Num) and isinstance(second, Num):
        a, b = align(first, second)
        low, high = min(a.low, b.low), max(a.high, b.high)
        return Num(pick(a.units, b.units), a.scale, low, high)
    if isinstance(first, TextColumn) and isinstance(second, TextColumn):
        longest = max(first.longest, second.longest)
        return TextColumn(pick(first.expr, second.expr), longest, first.ascii and second.ascii)
    return type(first)(pick(values(first), values(second)))  # type: ignore[call-arg]


def values(found: Found) -> pl.Expr:
    """What a column holds; of numbers their units."""
    return found.units if isinstance(found, Num) else found.expr


_ARITHMETIC: Final[Mapping[str, Callable[[Num, Num], Num]]] = {
    "+": Num.plus,
    "-": Num.minus,
    "*": Num.times,
}
_ORDER: Final[Mapping[str, Callable[[pl.Expr, pl.Expr], pl.Expr]]] = {
    "<": pl.Expr.lt,
    ">": pl.Expr.gt,
    "<=": pl.Expr.le,
    ">=": pl.Expr.ge,
}


def binary(operator: str, left: Found, right: Found) -> Found:
    """Two columns with an operator between them.

    Raises:
        NotProven: The operator is not exact for these columns.
    """
    if operator in {"AND", "OR"}:
        first, second = as_truth(left), as_truth(right)
        return Truth(first & second if operator == "AND" else first | second)
    if operator in {"==", "!="}:
        same = _same(left, right)
        return Truth(same if operator == "==" else ~same)
    if operator in _ORDER:
        if type(left) is not type(right) or isinstance(left, Truth | Nothing):
            raise NotProven
        return Truth(_ORDER[operator](*_comparable(left, right)))
    if operator == "+" and isinstance(left, TextColumn):
        return _joined_texts([left, right])
    if operator not in _ARITHMETIC:
        raise NotProven
    return _ARITHMETIC[operator](as_number(left), as_number(right))


def _same(left: Found, right: Found) -> pl.Expr:
    """Whether two values are equal, null being equal to null alone."""
    if isinstance(left, Nothing):
        return values(right).is_null()
    if isinstance(right, Nothing):
        return values(left).is_null()
    if type(left) is not type(right):
        raise NotProven
    first, second = _comparable(left, right)
    return first.eq_missing(second)


def _comparable(left: Found, right: Found) -> tuple[pl.Expr, pl.Expr]:
    if isinstance(left, Num) and isinstance(right, Num):
        left, right = align(left, right)
    return values(left), values(right)


def _joined_texts(arguments: Sequence[Found]) -> TextColumn:
    texts = [each for each in arguments if isinstance(each, TextColumn)]
    longest = sum(each.longest for each in texts)
    if len(texts) < len(arguments) or longest > TEXT_MAX:
        raise NotProven
    expr = pl.concat_str([each.expr for each in texts])
    return TextColumn(expr, longest, all(each.ascii for each in texts))


def _extreme(arguments: Sequence[Found], order: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Num:
    def one(first: Num, second: Num) -> Num:
        a, b = align(first, second)
        left = order(a.units, b.units)
        # Not otherwise: a null on either side makes the result null.
        units = pl.when(left).then(a.units).when(~left).then(b.units)
        return Num(units, a.scale, min(a.low, b.low), max(a.high, b.high))

    return reduce(one, map(as_number, arguments))


def _isnull(arguments: Sequence[Found]) -> Found:
    first, second = arguments
    return either(first, second, pl.coalesce)


def _in(arguments: Sequence[Found]) -> Truth:
    first, *others = arguments
    return Truth(pl.any_horizontal(*(_same(first, other) for other in others)))


def _change_case(arguments: Sequence[Found], change: Callable[[pl.Expr], pl.Expr]) -> TextColumn:
    (text,) = arguments
    # Beyond ASCII, Unicode versions of engines differ.
    if not isinstance(text, TextColumn) or not text.ascii:
        raise NotProven
    return text._replace(expr=change(text.expr))


def _length(arguments: Sequence[Found]) -> Num:
    (text,) = arguments
    if not isinstance(text, TextColumn):
        raise NotProven
    return Num(text.expr.str.len_chars().cast(pl.Int128), 0, 0, text.longest)


def _moment(found: Found) -> pl.Expr:
    if not isinstance(found, Moment):
        raise NotProven
    return found.expr


def _part(read: Callable[[pl.Expr], pl.Expr], high: int) -> Callable[[Sequence[Found]], Num]:
    def compute(arguments: Sequence[Found]) -> Num:
        (instant,) = arguments
        return Num(read(_moment(instant)).cast(pl.Int128), 0, 0, high)

    return compute


def _seconds(arguments: Sequence[Found]) -> Num:
    start, end = map(_moment, arguments)
    units = (end - start).dt.total_microseconds().cast(pl.Int128)
    return Num(units, 6, -(2**63), 2**63)


def _truncate(every: str) -> Callable[[Sequence[Found]], Moment]:
    return lambda arguments: Moment(_moment(arguments[0]).dt.truncate(every))


ROUNDINGS: Final[Mapping[str, Rounding]] = {
    "Math.floor": Rounding.DOWN,
    "Math.ceil": Rounding.UP,
    "Math.round": Rounding.NEAREST,
}
FUNCTIONS: Final[Mapping[str, Callable[[Sequence[Found]], Found]]] = {
    "Math.max": lambda arguments: _extreme(arguments, pl.Expr.ge),
    "Math.min": lambda arguments: _extreme(arguments, pl.Expr.le),
    "Math.abs": lambda arguments: as_number(arguments[0]).absolute(),
    "isnull": _isnull,
    "IN": _in,
    "concat": _joined_texts,
    "upper": lambda arguments: _change_case(arguments, lambda text: text.str.to_uppercase()),
    "lower": lambda arguments: _change_case(arguments, lambda text: text.str.to_lowercase()),
    "length": _length,
    "year": _part(lambda instant: instant.dt.year(), 9999),
    "month": _part(lambda instant: instant.dt.month(), 12),
    "day": _part(lambda instant: instant.dt.day(), 31),
    "hour": _part(lambda instant: instant.dt.hour(), 23),
    "dayOfWeek": _part(lambda instant: instant.dt.weekday(), 7),
    "truncateToDay": _truncate("1d"),
    "truncateToHour": _truncate("1h"),
    "differenceInSeconds": _seconds,
}
