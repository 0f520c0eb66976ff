"""Calculations over whole columns, wherever that is proven to give what the evaluator gives.

Null behaves as `evaluate` says: the kinds below hold it as Polars does. Nothing here can fail for a
row; what could, such as a division, is not proven and goes to the evaluator.

Results in columns: numbers as the lake keeps them, quotients among them where rounding is sure.

`divide` rounds an endless quotient to 20 digits, and the lake rounds that to 12 decimals. One
rounding gives the same, unless the quotient is as near to a tie as the 20 digits are wrong: such
rows, and those that divide by zero, are left to the evaluator.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Final, NamedTuple

import polars as pl

from meterlake.model.calculation import CalculationError, Node, Value
from meterlake.model.calculation.functions import SCALE_MAX, TEXT_MAX
from meterlake.model.calculation.tree import (
    Chain,
    Choice,
    FunctionCall,
    Literal,
    Name,
    Power,
    Signed,
)
from meterlake.model.calculation.types import CONSTANTS
from meterlake.model.values.money import EXACT, LAKE_PRECISION, LAKE_SCALE
from meterlake.stages.ingest.derive.inputs import Inputs
from meterlake.stages.ingest.derive.kinds import (
    FUNCTIONS,
    ROUNDINGS,
    Found,
    Moment,
    Nothing,
    TextColumn,
    Truth,
    as_number,
    as_truth,
    binary,
    either,
    values,
)
from meterlake.stages.ingest.derive.numbers import UNITS, NotProven, Num, measure, reciprocal

_POWER_MAX: Final = 8
# Beyond this many different keys of a block, looking up costs more than it saves.
_KEYS_MAX: Final = 100_000
# Below 100 the twentieth digit is worth 10^-18: a millionth of the lake's last decimal. Below a
# million it is worth a hundredth of it.
_NEAR: Final = ((10**14 - 1, 10**6), (10**18 - 1, 100))


class Columns:
    """Turns calculations into expressions over one block of measurements.

    Attributes:
        frame: The block with the columns that the expressions read.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.frame = inputs.frame
        self._names: dict[str, Found] = {}

    def compile(self, node: Node) -> Found:  # noqa: PLR0911  # one for each kind of node
        """The column of a calculation.

        Raises:
            NotProven: The evaluator has to compute it.
        """
        match node:
            case Literal():
                return self._constant(node.value)
            case Name():
                return self._name(node.key)
            case Signed():
                operand = as_number(self.compile(node.operand))
                return operand.negate() if node.sign == "-" else operand
            case Power():
                base, exponent = as_number(self.compile(node.base)), node.exponent
                times = exponent.value if isinstance(exponent, Literal) else None
                if not isinstance(times, Decimal) or times not in range(1, _POWER_MAX + 1):
                    raise NotProven
                return reduce(Num.times, [base] * int(times))
            case Chain():
                return self._chain(node)
            case Choice():
                return self._choice(node)
        return self._call(node)

    def values(self, expr: pl.Expr) -> pl.Series:
        """The values of an expression, one for each row of the block."""
        values = self.frame.select(expr.alias("?result"))["?result"]
        # What turns out to be the same in all rows may come back once.
        same = len(values) == 1 < len(self.frame)
        return values.new_from_index(0, len(self.frame)) if same else values

    def _constant(self, value: Value) -> Found:
        if isinstance(value, bool):
            return Truth(pl.lit(value))
        if isinstance(value, Decimal):
            return Num.constant(value)
        if isinstance(value, str):
            return TextColumn(pl.lit(value), len(value), value.isascii())
        if value is None:
            return Nothing(pl.lit(None))
        raise NotProven

    def _name(self, name: str) -> Found:
        if name not in self._names:
            self._names[name] = self._read_column(name)
        return self._names[name]

    def _read_column(self, name: str) -> Found:
        if name in CONSTANTS:
            return self._constant(CONSTANTS[name])
        if name in self.inputs.columns:
            column = self.inputs.columns[name]
            values = self.frame[column]
            if isinstance(values.dtype, pl.Decimal):
                return self._units(values.to_physical(), values.dtype.scale)
            if values.dtype == pl.String:
                return self._texts(values, column)
            return Moment(pl.col(column))
        if name in self.inputs.accounts:
            own = self.inputs.accounts[name]
            rows = self.frame["account_id"]
            return self._join(rows.to_frame(), lambda key: own.of(key[0]))
        return self._constant(self.inputs.constants.get(name))

    def _units(self, values: pl.Series, scale: int) -> Num:
        units, less, low, high = measure(values, scale)
        return Num.within(self._add(units), less, low, high)

    def _texts(self, values: pl.Series, column: str) -> TextColumn:
        characters, size = values.str.len_chars(), values.str.len_bytes()
        longest = characters.max()
        assert longest is None or isinstance(longest, int)
        return TextColumn(pl.col(column), longest or 0, characters.sum() == size.sum())

    def _add(self, values: pl.Series) -> pl.Expr:
        name = f"?{self.frame.width}"
        self.frame = self.frame.with_columns(values.alias(name))
        return pl.col(name)

    def _join(self, keys: pl.DataFrame, value_of: Callable[[tuple[Value, ...]], Value]) -> Found:
        """A column of what each row's keys stand for, asked for once for each different key."""
        each = keys.unique()
        if len(each) > _KEYS_MAX:
            raise NotProven
        try:
            values = [value_of(key) for key in each.iter_rows()]
        except CalculationError:
            raise NotProven from None
        if not any(value is not None for value in values):
            return Nothing(pl.lit(None))
        found, kind = _series(values)
        table = each.with_columns(found.alias("?value"))
        joined = keys.join(
            table, on=keys.columns, how="left", nulls_equal=True, maintain_order="left"
        )["?value"]
        if kind is None:
            return self._texts(joined, self._add(joined).meta.output_name())
        return self._units(joined, kind)

    def _chain(self, node: Chain) -> Found:
        found = self.compile(node.first)
        for operator, operand in node.rest:
            if operator == "/":
                found = as_number(found).times(self._reciprocal(operand))
            else:
                found = binary(operator, found, self.compile(operand))
        return found

    def _reciprocal(self, node: Node) -> Num:
        value: Value = node.value if isinstance(node, Literal) else None
        if isinstance(node, Name) and node.key not in self.inputs.varying:
            value = {**CONSTANTS, **self.inputs.constants}.get(node.key)
        inverse = reciprocal(value) if isinstance(value, Decimal) else None
        if inverse is None:
            raise NotProven
        return Num.constant(inverse)

    def _choice(self, node: Choice) -> Found:
        condition = as_truth(self.compile(node.condition)).fill_null(value=False)
        chosen, otherwise = self.compile(node.chosen), self.compile(node.otherwise)

        def pick(first: pl.Expr, second: pl.Expr) -> pl.Expr:
            return pl.when(condition).then(first).otherwise(second)

        return either(chosen, otherwise, pick)

    def _call(self, node: FunctionCall) -> Found:
        if node.function == "lookup":
            return self._lookup(node)
        if node.function in ROUNDINGS:
            return self._round(node)
        if node.function not in FUNCTIONS:
            raise NotProven
        arguments = [self.compile(argument) for argument in node.arguments]
        return FUNCTIONS[node.function](arguments)

    def _round(self, node: FunctionCall) -> Num:
        number, *places = node.arguments
        scale = _whole(places[0]) if places else 0
        return as_number(self.compile(number)).whole(scale, ROUNDINGS[node.function])

    def _lookup(self, node: FunctionCall) -> Found:
        table, field, *keys = node.arguments
        if not isinstance(table, Literal) or not isinstance(field, Literal):
            raise NotProven
        code, name = str(table.value), str(field.value)
        found = [self.compile(key) for key in keys]
        scales = [each.scale if isinstance(each, Num) else None for each in found]

        def value_of(key: tuple[Value, ...]) -> Value:
            if any(part is None for part in key):
                return None
            parts = [_value(part, scale) for part, scale in zip(key, scales, strict=True)]
            return self.inputs.lookup(code, name, tuple(parts))

        rows = {f"k{n}": self.values(values(each)) for n, each in enumerate(found)}
        return self._join(pl.DataFrame(rows), value_of)


def _value(part: Value, scale: int | None) -> Value:
    """A key of a column as the evaluator has it."""
    if scale is not None:
        return EXACT.normalize(EXACT.scaleb(Decimal(str(part)), -scale))
    if not isinstance(part, str):
        raise NotProven
    return part


def _series(values: Sequence[Value]) -> tuple[pl.Series, int | None]:
    """Values of one type as a column: numbers as units at a scale, texts without one."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, str) and len(value) <= TEXT_MAX for value in known):
        return pl.Series(values, dtype=pl.String), None
    numbers = [value for value in known if isinstance(value, Decimal)]
    if len(numbers) < len(known):
        raise NotProven
    scale = max(max(0, -int(each.as_tuple().exponent)) for each in numbers)
    units = [int(EXACT.scaleb(each, scale)) for each in numbers]
    if scale > LAKE_PRECISION or max(map(abs, units)) >= 2**127:
        raise NotProven
    rest = iter(units)
    filled = [None if value is None else next(rest) for value in values]
    return pl.Series(filled, dtype=pl.Int128), scale


def _whole(node: Node) -> int:
    """The scale of a rounding that is written down."""
    sign = -1 if isinstance(node, Signed) and node.sign == "-" else 1
    literal = node.operand if isinstance(node, Signed) else node
    value = literal.value if isinstance(literal, Literal) else None
    if not isinstance(value, Decimal) or value != int(value) or value > SCALE_MAX:
        raise NotProven
    return sign * int(value)


class Result(NamedTuple):
    """Units at the lake's scale; of the rows in `unsure` nothing is known."""

    units: pl.Expr
    unsure: pl.Expr


def result(columns: Columns, node: Node) -> Result:
    """A calculation whose result is a number of the lake.

    Raises:
        NotProven: The evaluator has to compute it.
    """
    try:
        found = columns.compile(node)
        if isinstance(found, Nothing):
            return Result(pl.lit(None, UNITS), pl.lit(value=False))
        return Result(as_number(found).in_lake().units, pl.lit(value=False))
    except NotProven:
        if isinstance(node, Choice):
            return _choice(columns, node)
        if isinstance(node, Chain) and node.rest[-1][0] == "/":
            before = Chain(node.first, node.rest[:-1]) if node.rest[:-1] else node.first
            dividend = as_number(columns.compile(before))
            divisor = as_number(columns.compile(node.rest[-1][1]))
            places = LAKE_SCALE + divisor.scale - dividend.scale
            top = dividend.at(dividend.scale + max(places, 0))
            bottom = divisor.at(divisor.scale + max(-places, 0))
            # The remainder is doubled and compared: all of it has to fit.
            Num.within(top.units, 0, 2 * top.low, 2 * top.high)
            Num.within(top.units, 0, 4 * bottom.low, 4 * bottom.high)
            return _round(top.units, bottom.units)
        raise


def _choice(columns: Columns, node: Choice) -> Result:
    condition = as_truth(columns.compile(node.condition)).fill_null(value=False)
    first, second = result(columns, node.chosen), result(columns, node.otherwise)
    return Result(
        pl.when(condition).then(first.units).otherwise(second.units),
        pl.when(condition).then(first.unsure).otherwise(second.unsure),
    )


def _round(top: pl.Expr, bottom: pl.Expr) -> Result:
    zero, one = pl.lit(0, UNITS), pl.lit(1, UNITS)
    negative, none = bottom < 0, bottom == 0
    size = pl.when(none).then(one).when(negative).then(zero - bottom).otherwise(bottom)
    above = pl.when(negative).then(zero - top).otherwise(top)
    below = above // size
    twice = (above - below * size) * pl.lit(2, UNITS)
    from_tie = _absolute(twice - size)
    # The larger the quotient is, the less do 20 digits say of its last decimals.
    near = pl.lit(value=True)
    for limit, parts in reversed(_NEAR):
        within = _absolute(below) < pl.lit(limit, UNITS)
        near = pl.when(within).then(from_tie <= size // pl.lit(parts, UNITS)).otherwise(near)
    units = below + (twice > size).cast(UNITS)
    return Result(units, (none | near).fill_null(value=False))


def _absolute(units: pl.Expr) -> pl.Expr:
    return pl.when(units < 0).then(pl.lit(0, UNITS) - units).otherwise(units)
