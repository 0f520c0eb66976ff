"""What a document is made of, and how it writes numbers, days and names."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.bills.document import AppendixDetail, DocumentParty
from meterlake.model.bills.statements import StatementContent
from meterlake.model.values.money import ZERO, RoundingMode, exact, plain
from meterlake.model.values.period import parse_instant

# Of a currency that nobody described.
DECIMALS: Final = 2
# What turns the text around it: a name could change how the numbers beside it read.
_TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_SHOWN_AS_SPACE: Final = frozenset("\t\n\v\f\r\u0085\u2028\u2029")
_MOMENT: Final = timedelta(microseconds=1)


class NamedAccount(NamedTuple):
    """An account as a document names it."""

    code: str
    name: str | None


class LineDraw(NamedTuple):
    """How much a source paid of a line."""

    line_id: str
    amount: Decimal


class CurrencyRounding(NamedTuple):
    """How amounts of a currency are rounded."""

    places: int
    mode: RoundingMode


class BandPrice(NamedTuple):
    """Lines whose bands together are what they cost.

    Attributes:
        line_ids: A line, or the parts that one was cut into.
        days: How many days of how many the price is charged for.
        own: The rounding of the currency of the price; None if the lines were cut after it.
        billed: The rounding of the currency of the bill.
    """

    line_ids: Sequence[str]
    days: tuple[int, int]
    own: CurrencyRounding | None
    billed: CurrencyRounding


class ReferencedBill(NamedTuple):
    """A bill that a memo is about, with the numbers of its lines by their ids."""

    number: str | None
    date: date
    lines: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentFacts:
    """All that a document says.

    Attributes:
        content: The bill as the API shows it, its lines, and the usage behind them.
        detail: How finely usage is shown.
        accounts: The accounts of the lines, by id.
        draws: What the lines of commitments and balances pay, by the ids of these lines.
        limits: Where the bands of a line's price begin, in order, by the id of the line.
        band_prices: The lines whose bands say what they cost.
        bills: The bills that memos are about, by id.
        decimals: Of currencies, by code.
    """

    content: StatementContent
    seller: DocumentParty
    customer: DocumentParty
    detail: AppendixDetail
    accounts: Mapping[str, NamedAccount] = field(default_factory=dict)
    draws: Mapping[str, Sequence[LineDraw]] = field(default_factory=dict)
    limits: Mapping[str, Sequence[Decimal]] = field(default_factory=dict)
    band_prices: Sequence[BandPrice] = ()
    bills: Mapping[str, ReferencedBill] = field(default_factory=dict)
    decimals: Mapping[str, int] = field(default_factory=dict)


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
