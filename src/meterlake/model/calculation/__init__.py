r"""The language of calculations: derived fields, compound aggregations and notifications.

A text becomes a tree (`parse`), the tree is checked against what it may name (`check`), and is
computed for values (`evaluate`). Nothing here runs Python code of the text.

From the loosest operator to the tightest:

========================  ==========================================================
`c ? a : b`               `a` if `c` is true, else `b`; groups from the right
`OR`, then `AND`          in upper case
`== != < > <= >=`         numbers, texts, instants; `==` and `!=` also booleans and null
`+ -`                     exact; `+` also joins texts
`* / %`                   `*` and `%` are exact, an endless quotient has 20 digits
`+x -x`                   signs: `-2 ^ 2` is -4
`a ^ b`                   whole exponents from -64 to 64; groups from the right
========================  ==========================================================

========================  ==========================================================
`1.5 2e3`                 numbers: at most 26 integer digits and 12 decimals
`"a \"b\" \\ \n \t"`         texts in double quotes
`true false null`         these, `AND` and `OR` are reserved
`Math.PI`                 3.1415926535897932385
`DateTime.TS_FMT`         the text `yyyy-MM-dd'T'HH:mm:ss.SSSX`, for `toText`
`files`                   a field by its bare code
`ts ets account.code`     what every measurement has
`customFields.account.x`  also `organization`, `product`, `meter`; odd names in quotes:
                          `customFields.account."Tier 1"`
`aggregation.code`        in compound aggregations
`new.x old.x`             in notifications
========================  ==========================================================

================================  ==================================================
`Math.max(a, b, …)`, `Math.min`   two or more numbers
`Math.floor(x[, scale])`          the next lower number with `scale` decimals, default 0;
                                  a negative scale means powers of ten
`Math.ceil`, `Math.round`         the next higher, the nearest; halves go up: -2.5 is -2
`Math.pow(a, b)`, `Math.abs(x)`   `a ^ b`; without its sign
`isnull(x, fallback)`             `fallback` if `x` is null
`IN(x, a, b, …)`                  whether `x` equals one of the others
`upper(t)`, `lower(t)`            in capital, in small letters
`concat(a, b, …)`                 joined texts
`substring(t, begin[, end])`      characters from `begin`, counted from 0, to before `end`
`length(t)`                       how many characters (code points)
`replace(t, old, new)`            every `old` replaced; an empty `old` changes nothing
`year month day hour (instant)`   in UTC, like all of these
`dayOfWeek(instant)`              1 is Monday, 7 is Sunday
`truncateToDay`, `truncateToHour`  the instant at which its day or hour began
`differenceInSeconds(from, to)`   to the microsecond; negative if `to` is earlier
`toNumber(x)`                     of a text that is a number to every door of meterlake
`toText(x[, DateTime.TS_FMT])`    plain digits; instants like 2026-10-01T00:00:00Z
`toInstant(t)`                    of ISO 8601; without an offset it is UTC
`lookup("table", "field", k, …)`  of the row with these keys in the published revision
================================  ==================================================

How null behaves: `evaluate`. At most 5,000 characters, 50 levels, 1,000 operands and operators.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

from meterlake.model.calculation.check import check
from meterlake.model.calculation.evaluate import Lookup, evaluate
from meterlake.model.calculation.mistakes import CalculationError, InvalidCalculation
from meterlake.model.calculation.tree import FunctionCall, Literal, Node, names, walk, write
from meterlake.model.calculation.types import CalculationScope, LookupSchema, Type, Value

__all__ = [
    "CalculationError",
    "CalculationScope",
    "InvalidCalculation",
    "Lookup",
    "LookupSchema",
    "Node",
    "Type",
    "Value",
    "check",
    "evaluate",
    "looked_up",
    "lookup_codes",
    "names",
    "parse",
    "write",
]

_KEPT_MAX: Final = 1000


@lru_cache(maxsize=_KEPT_MAX)
def parse(text: str) -> Node:
    """Read a calculation; the same text again costs nothing.

    Raises:
        InvalidCalculation: It is none, or it is too long, too deep or has too many parts.
    """
    # The parser takes longer to load than most commands take to run.
    from meterlake.model.calculation import grammar  # noqa: PLC0415

    return grammar.parse(text)


def looked_up(tree: Node) -> Iterator[Literal]:
    """The names of lookup tables in a calculation, where they stand."""
    for node in walk(tree):
        if isinstance(node, FunctionCall) and node.function == "lookup" and node.arguments:
            first = node.arguments[0]
            if isinstance(first, Literal) and isinstance(first.value, str):
                yield first


def lookup_codes(calculations: Iterable[str]) -> tuple[str, ...]:
    """The codes of the lookup tables that calculations read; none of what is no calculation."""
    found: dict[str, None] = {}
    for text in calculations:
        if "lookup" in text:
            with suppress(InvalidCalculation):
                found |= dict.fromkeys(str(each.value) for each in looked_up(parse(text)))
    return tuple(found)
