"""Numbers, days and names as a document has them."""

import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from meterlake.model.values.money import ZERO, exact, plain
from meterlake.model.values.period import parse_instant

# Of a currency that nobody described.
DECIMALS: Final = 2
# What turns the text around it: a name could change how the numbers beside it read.
_TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHOWN_AS_SPACE: Final = frozenset("\t\n\v\f\r\u0085\u2028\u2029")
_MOMENT: Final = timedelta(microseconds=1)


def clean_text(text: str) -> str:
    """A text of one line without what controls a page: it can be seen, or it is not there."""
    if text.isascii() and text.isprintable():
        return text
    spaced = "".join(" " if each in _SHOWN_AS_SPACE else each for each in text)
    return "".join(
        each
        for each in spaced
        if each not in _TURNING and unicodedata.category(each) not in {"Cc", "Cs", "Cn"}
    )


def clean_lines(text: str) -> list[str]:
    """The lines of a text of several, without empty ones."""
    return [line for each in text.splitlines() if (line := clean_text(each).strip())]


def number_text(value: Any) -> str:
    """A number with all its digits."""
    return plain(Decimal(value))


def amount_text(value: Any, decimals: int) -> str:
    """An amount with at least the decimals of its currency, and with all its digits."""
    text = plain(Decimal(value))
    whole, _, fraction = text.partition(".")
    fraction = fraction.ljust(decimals, "0")
    return f"{whole}.{fraction}" if fraction else whole


def sum_of(values: Iterable[Any]) -> Decimal:
    """The exact sum of numbers or of their texts."""
    with exact():
        return sum(map(Decimal, values), ZERO)


def first_day(instant: str, tz: tzinfo) -> str:
    """The day in which an instant lies."""
    return local_instant(instant, tz).date().isoformat()


def last_day(end: str, tz: tzinfo) -> str:
    """The last day of what ends at an instant, exclusive."""
    return (local_instant(end, tz) - _MOMENT).date().isoformat()


def local_text(instant: str, tz: tzinfo) -> str:
    """An instant with the clock of a zone."""
    return local_instant(instant, tz).isoformat()


def local_instant(instant: str, tz: tzinfo) -> datetime:
    """An instant of the wire in a zone."""
    found = parse_instant(instant)
    assert found is not None, instant
    return found.astimezone(tz)
