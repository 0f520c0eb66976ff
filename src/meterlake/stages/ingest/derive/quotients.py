"""Results in columns: numbers as the lake keeps them, quotients among them where rounding is sure.

`divide` rounds an endless quotient to 20 digits, and the lake rounds that to 12 decimals. One
rounding gives the same, unless the quotient is as near to a tie as the 20 digits are wrong: such
rows, and those that divide by zero, are left to the evaluator.
"""

from typing import Final, NamedTuple

import polars as pl

from meterlake.model.calculation import Node
from meterlake.model.calculation.tree import Chain, Choice
from meterlake.model.values.money import LAKE_SCALE
from meterlake.stages.ingest.derive.columns import Columns
from meterlake.stages.ingest.derive.kinds import Nothing, as_number, as_truth
from meterlake.stages.ingest.derive.numbers import UNITS, NotProven, Num

# Below 100 the twentieth digit is worth 10^-18: a millionth of the lake's last decimal. Below a
# million it is worth a hundredth of it.
_NEAR: Final = ((10**14 - 1, 10**6), (10**18 - 1, 100))


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
            return _quotient(columns, node)
        raise


def _choice(columns: Columns, node: Choice) -> Result:
    condition = as_truth(columns.compile(node.condition)).fill_null(value=False)
    first, second = result(columns, node.chosen), result(columns, node.otherwise)
    return Result(
        pl.when(condition).then(first.units).otherwise(second.units),
        pl.when(condition).then(first.unsure).otherwise(second.unsure),
    )


def _quotient(columns: Columns, node: Chain) -> Result:
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
