"""Exact numbers as columns: 128-bit integers at a scale, with the range that they cannot leave.

`units * 10^-scale` is the number. Every step proves from the range of its operands that its result
fits; what cannot be proven raises `OutOfRange`, and the evaluator computes it row by row.
"""

from decimal import Decimal
from typing import Final, NamedTuple, Self

import polars as pl
import pyarrow as pa

from meterlake.model.values.money import EXACT, LAKE_PRECISION, LAKE_SCALE, Rounding

UNITS: Final = pl.Int128
NUMBER: Final = pl.Decimal(LAKE_PRECISION, LAKE_SCALE)

_WIDEST: Final = 2**127 - 1
_LAKE_WIDEST: Final = 10**LAKE_PRECISION - 1
# Far below where the evaluator finds that a number has too many digits.
_SCALE_MAX: Final = 100
# What most numbers need: none, money and sizes, all that there are.
_SCALES: Final = (0, 6)


class NotProven(Exception):
    """Columns are not known to give what the evaluator gives."""


class OutOfRange(NotProven):
    """Numbers are too large, or have too many decimals, for 128 bits."""


class Num(NamedTuple):
    """A column of numbers; `low` and `high` bound its units, null apart."""

    units: pl.Expr
    scale: int
    low: int
    high: int

    @classmethod
    def within(cls, units: pl.Expr, scale: int, *bounds: int) -> Self:
        """A column whose units lie between the least and the greatest of some bounds.

        Raises:
            OutOfRange: They may not fit.
        """
        if scale > _SCALE_MAX or max(map(abs, bounds)) > _WIDEST:
            raise OutOfRange
        return cls(units, scale, min(bounds), max(bounds))

    @classmethod
    def constant(cls, value: Decimal) -> Self:
        """The same number in every row."""
        scale = max(0, -int(value.as_tuple().exponent))
        units = int(EXACT.scaleb(value, scale))
        if abs(units) > _WIDEST:
            raise OutOfRange
        return cls(pl.lit(units, UNITS), scale, units, units)

    def at(self, scale: int) -> "Num":
        """The same numbers at a greater scale."""
        if scale == self.scale:
            return self
        step = 10 ** (scale - self.scale)
        if step > _WIDEST:
            raise OutOfRange
        return Num.within(self.units * _lit(step), scale, self.low * step, self.high * step)

    def plus(self, other: "Num") -> "Num":
        """The sums."""
        a, b = align(self, other)
        return Num.within(a.units + b.units, a.scale, a.low + b.low, a.high + b.high)

    def minus(self, other: "Num") -> "Num":
        """The differences."""
        a, b = align(self, other)
        return Num.within(a.units - b.units, a.scale, a.low - b.high, a.high - b.low)

    def times(self, other: "Num") -> "Num":
        """The products."""
        corners = [a * b for a in self[2:] for b in other[2:]]
        return Num.within(self.units * other.units, self.scale + other.scale, *corners)

    def negate(self) -> "Num":
        """The numbers with the other sign."""
        return Num.within(_lit(0) - self.units, self.scale, -self.low, -self.high)

    def absolute(self) -> "Num":
        """The numbers without their sign."""
        turned = self.negate()
        units = pl.when(self.units < 0).then(turned.units).otherwise(self.units)
        low = 0 if self.low <= 0 <= self.high else min(abs(self.low), abs(self.high))
        return Num.within(units, self.scale, low, max(abs(self.low), abs(self.high)))

    def whole(self, places: int, mode: Rounding) -> "Num":
        """The numbers rounded to some decimals, tens if negative, as `round_units` rounds."""
        if places >= self.scale:
            return self
        step = _step(self.scale - places)
        match mode:
            case Rounding.UP:
                units = _lit(0) - ((_lit(0) - self.units) // _lit(step))
            case Rounding.DOWN:
                units = self.units // _lit(step)
            case _:
                self._room(step)
                units = (self.units + _lit(step // 2)) // _lit(step)
        found = Num(units, max(places, 0), self.low // step - 1, self.high // step + 1)
        if places >= 0:
            return found
        tens = _step(-places)
        return Num.within(units * _lit(tens), 0, found.low * tens, found.high * tens)

    def _room(self, step: int) -> None:
        if max(abs(self.low), abs(self.high)) + step > _WIDEST:
            raise OutOfRange

    def in_lake(self) -> "Num":
        """The numbers as the lake keeps them: 12 decimals, rounded half-even."""
        found = self.at(LAKE_SCALE) if self.scale <= LAKE_SCALE else self._half_even()
        if max(abs(found.low), abs(found.high)) > _LAKE_WIDEST:
            raise OutOfRange
        return found

    def _half_even(self) -> "Num":
        step = _step(self.scale - LAKE_SCALE)
        self._room(2 * step)
        below = self.units // _lit(step)
        twice = (self.units - below * _lit(step)) * _lit(2)
        up = (twice > step) | ((twice == step) & (below % _lit(2) == 1))
        units = below + up.cast(UNITS)
        return Num(units, LAKE_SCALE, self.low // step - 1, self.high // step + 1)


def _lit(value: int) -> pl.Expr:
    return pl.lit(value, UNITS)


def _step(digits: int) -> int:
    if 10**digits > _WIDEST // 4:
        raise OutOfRange
    return int(10**digits)


def align(first: Num, second: Num) -> tuple[Num, Num]:
    """Two columns at one scale."""
    scale = max(first.scale, second.scale)
    return first.at(scale), second.at(scale)


def reciprocal(value: Decimal) -> Decimal | None:
    """1 / value if that has an end, so that dividing by it is multiplying; None otherwise."""
    top, bottom = value.as_integer_ratio()
    rest, places = abs(top), 0
    for factor in (2, 5):
        count = 0
        while rest and rest % factor == 0:
            rest //= factor
            count += 1
        places = max(places, count)
    if rest != 1 or places > LAKE_PRECISION:
        return None
    return EXACT.scaleb(Decimal(bottom * 10**places // top), -places)


def measure(units: pl.Series, scale: int) -> tuple[pl.Series, int, int, int]:
    """Units at the least of some scales that holds them all, that scale, and their range."""
    for less in _SCALES:
        step = 10 ** (scale - less) if less < scale else 1
        if step == 1:
            break
        fits, fewer = (
            units.to_frame("u")
            .select((pl.col("u") % _lit(step) == 0).all().alias("fits"), pl.col("u") // _lit(step))
            .get_columns()
        )
        if fits.item(0):
            units, scale = fewer, less
            break
    low, high = units.min(), units.max()
    return units, scale, 0 if low is None else int(str(low)), 0 if high is None else int(str(high))


def as_decimals(units: pl.Series) -> pl.Series:
    """Units at the scale of the lake as its numbers, without a copy."""
    plain = units.cast(pl.Decimal(LAKE_PRECISION, 0)).rechunk().to_arrow()
    kind = pa.decimal128(LAKE_PRECISION, LAKE_SCALE)
    array = pa.Array.from_buffers(kind, len(plain), plain.buffers(), offset=plain.offset)
    found = pl.from_arrow(array)
    assert isinstance(found, pl.Series)
    return found
