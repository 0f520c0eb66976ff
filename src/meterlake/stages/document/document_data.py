"""What a document is made of: a bill with its usage, and what is known of those it names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from meterlake.model.bills.document import AppendixDetail, DocumentParty
from meterlake.model.bills.statements import StatementContent
from meterlake.model.values.money import RoundingMode


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
