"""The functions of the language: what they take, what they give, and how they are computed.

They are called with values of the declared types, never with null: one null argument makes the
result null. `isnull`, `IN` and `lookup` treat null, or their arguments, in their own way and are
computed by the evaluator.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from meterlake.model.calculation.mistakes import CalculationError
from meterlake.model.calculation.types import CONSTANTS, Type
from meterlake.model.values.money import (
    EXACT,
    ONE,
    ZERO,
    Rounding,
    divide,
    parse_number,
    plain,
    round_units,
)
from meterlake.model.values.period import format_instant, parse_instant

EXPONENT_MAX: Final = 64
SCALE_MAX: Final = 38
# Four times what a measurement may carry; it bounds the time that a calculation can take.
TEXT_MAX: Final = 4096

# Numbers between, far beyond what the lake holds: exact arithmetic keeps 200 digits.
_MAGNITUDE_MAX: Final = 100
_DECIMALS_MAX: Final = 200

_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Function:
    """A function: how it is computed, the types it takes one by one, and what it gives.

    Attributes:
        compute: Takes values of the types in `takes`.
        takes: For each argument the types that it may have.
        gives: The type of the result.
        optional: How many of the last arguments may be absent.
        repeats: Whether the last argument may stand any number of times.
    """

    compute: Callable[..., Any]
    takes: tuple[frozenset[Type], ...]
    gives: Type
    optional: int = 0
    repeats: bool = False

    @property
    def least(self) -> int:
        """How many arguments it needs."""
        return len(self.takes) - self.optional

    @property
    def most(self) -> int | None:
        """How many arguments it can have; None if there is no end."""
        return None if self.repeats else len(self.takes)

    def types_at(self, index: int) -> frozenset[Type]:
        """The types that the argument at an index, counted from 0, may have."""
        return self.takes[min(index, len(self.takes) - 1)]


def strip_zeros(number: Decimal) -> Decimal:
    """A number without trailing zeros, which would use up the digits of exact arithmetic.

    Raises:
        CalculationError: It is not finite, or too far from what anything could store.
    """
    if not number.is_finite():
        raise CalculationError("a number that is not finite")
    if not number:
        return ZERO
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), number
    if number.adjusted() > _MAGNITUDE_MAX or -exponent > _DECIMALS_MAX:
        raise CalculationError("a number with too many digits")
    return EXACT.normalize(number)


def short(text: str) -> str:
    """A text as it is.

    Raises:
        CalculationError: It is longer than a calculation may make it.
    """
    if len(text) > TEXT_MAX:
        raise CalculationError(f"a text of more than {TEXT_MAX:,} characters")
    return text


def whole(number: Decimal, most: int, what: str) -> int:
    """A number as an integer between `-most` and `most`.

    Raises:
        CalculationError: It is no such integer; the sentence begins with `what`.
    """
    if abs(number) > most or number != int(number):
        raise CalculationError(f"{what} must be a whole number from -{most} to {most}")
    return int(number)


def quotient(dividend: Decimal, divisor: Decimal) -> Decimal:
    """Divide as `money.divide` does.

    Raises:
        CalculationError: The divisor is zero.
    """
    if not divisor:
        raise CalculationError("division by zero")
    return divide(dividend, divisor)


def remainder(dividend: Decimal, divisor: Decimal) -> Decimal:
    """What is left of a division to a whole number; it has the sign of the dividend.

    Raises:
        CalculationError: The divisor is zero.
    """
    if not divisor:
        raise CalculationError("division by zero")
    return dividend % divisor


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """Multiply `base` with itself, exactly; `0 ^ 0` is 1, a negative exponent divides 1.

    Raises:
        CalculationError: The exponent is not whole or too large, the result has too many digits,
            or it divides by zero.
    """
    times = whole(exponent, EXPONENT_MAX, "an exponent")
    result = ONE
    # From the highest bit down, so that no square is computed that the result does not need.
    for bit in format(abs(times), "b"):
        result = strip_zeros(result * result * base if bit == "1" else result * result)
    return quotient(ONE, result) if times < 0 else result


def _rounding(mode: Rounding) -> Callable[..., Decimal]:
    def compute(number: Decimal, scale: Decimal = ZERO) -> Decimal:
        places = whole(scale, SCALE_MAX, "a scale")
        return round_units(number.scaleb(places), mode).scaleb(-places)

    return compute


def _concat(*texts: str) -> str:
    return short("".join(texts))


def _substring(text: str, begin: Decimal, end: Decimal | None = None) -> str:
    first = _position(begin, len(text), "the begin of a substring")
    last = len(text) if end is None else _position(end, len(text), "the end of a substring")
    return text[first:last]


def _position(number: Decimal, length: int, what: str) -> int:
    """A place in a text; one behind the text is its end."""
    if number < 0 or number != number.to_integral_value():
        raise CalculationError(f"{what} must be a whole number, and not before the text")
    return int(min(number, Decimal(length)))


def _replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    if len(text) + text.count(old) * (len(new) - len(old)) > TEXT_MAX:
        raise CalculationError(f"a text of more than {TEXT_MAX:,} characters")
    return text.replace(old, new)


def _to_day(instant: datetime) -> datetime:
    return instant.replace(hour=0, minute=0, second=0, microsecond=0)


def _to_hour(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)


def _seconds_between(start: datetime, end: datetime) -> Decimal:
    return Decimal((end - start) // _MICROSECOND).scaleb(-6).normalize()


def _to_number(value: Decimal | str) -> Decimal:
    number = value if isinstance(value, Decimal) else parse_number(value)
    if number is None:
        raise CalculationError(f"{_display(value)} is no number")
    return number


def _to_text(value: Decimal | str | bool | datetime, pattern: str | None = None) -> str:
    if pattern is not None:
        if pattern != CONSTANTS["DateTime.TS_FMT"] or not isinstance(value, datetime):
            raise CalculationError("only an instant has a format, and it is DateTime.TS_FMT")
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return format_instant(value)
    return plain(value) if isinstance(value, Decimal) else value


def _to_instant(value: str | datetime) -> datetime:
    instant = value if isinstance(value, datetime) else parse_instant(value)
    if instant is None:
        raise CalculationError(f"{_display(value)} is no instant")
    return instant


def _display(value: object) -> str:
    return repr(value)[:80]


def _part(name: str) -> Function:
    def compute(instant: datetime) -> Decimal:
        return Decimal(getattr(instant, name))

    return Function(compute, (_INSTANT,), Type.NUMBER)


_NUMBER: Final = frozenset({Type.NUMBER})
_TEXT: Final = frozenset({Type.TEXT})
_INSTANT: Final = frozenset({Type.INSTANT})
_ANY: Final = frozenset(Type)

FUNCTIONS: Final[Mapping[str, Function]] = {
    "Math.max": Function(lambda *a: max(a), (_NUMBER, _NUMBER), Type.NUMBER, repeats=True),
    "Math.min": Function(lambda *a: min(a), (_NUMBER, _NUMBER), Type.NUMBER, repeats=True),
    "Math.floor": Function(_rounding(Rounding.DOWN), (_NUMBER, _NUMBER), Type.NUMBER, optional=1),
    "Math.ceil": Function(_rounding(Rounding.UP), (_NUMBER, _NUMBER), Type.NUMBER, optional=1),
    "Math.round": Function(
        _rounding(Rounding.NEAREST), (_NUMBER, _NUMBER), Type.NUMBER, optional=1
    ),
    "Math.pow": Function(power, (_NUMBER, _NUMBER), Type.NUMBER),
    "Math.abs": Function(abs, (_NUMBER,), Type.NUMBER),
    "upper": Function(lambda a: short(a.upper()), (_TEXT,), Type.TEXT),
    "lower": Function(lambda a: short(a.lower()), (_TEXT,), Type.TEXT),
    "concat": Function(_concat, (_TEXT, _TEXT), Type.TEXT, repeats=True),
    "substring": Function(_substring, (_TEXT, _NUMBER, _NUMBER), Type.TEXT, optional=1),
    "length": Function(lambda a: Decimal(len(a)), (_TEXT,), Type.NUMBER),
    "replace": Function(_replace, (_TEXT, _TEXT, _TEXT), Type.TEXT),
    "year": _part("year"),
    "month": _part("month"),
    "day": _part("day"),
    "hour": _part("hour"),
    "dayOfWeek": Function(lambda a: Decimal(a.isoweekday()), (_INSTANT,), Type.NUMBER),
    "truncateToDay": Function(_to_day, (_INSTANT,), Type.INSTANT),
    "truncateToHour": Function(_to_hour, (_INSTANT,), Type.INSTANT),
    "differenceInSeconds": Function(_seconds_between, (_INSTANT, _INSTANT), Type.NUMBER),
    "toNumber": Function(_to_number, (_NUMBER | _TEXT,), Type.NUMBER),
    "toText": Function(_to_text, (_ANY, _TEXT), Type.TEXT, optional=1),
    "toInstant": Function(_to_instant, (_INSTANT | _TEXT,), Type.INSTANT),
}

# Those of the evaluator: how many arguments they need, and may have.
SPECIAL: Final[Mapping[str, tuple[int, int | None]]] = {
    "isnull": (2, 2),
    "IN": (2, None),
    "lookup": (3, None),
}
