"""Columns of exported files: what kind of value each holds, and how a file or a spreadsheet has it.

The rule: a text whose first character is one of `STARTS` gets an apostrophe in front. The apostrophe
is one of them, so a cell begins with one exactly where it was put there, and every text comes back.
Numbers, instants, flags and JSON are left as they are: none of them is a formula.
"""

import types
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, Union, get_args, get_origin

from meterlake.model.bills.members import BillMember
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.period import format_instant

MARK: Final = "'"
# What formulas begin with, in full width too, and blanks that programs may cut off before them.
# Source: OWASP, CSV Injection.
STARTS: Final = (*"=+-@\uff1d\uff0b\uff0d\uff20", *" \t\r\n\v\f\u00a0\u3000", MARK)


class Kind(StrEnum):
    """What a column holds."""

    TEXT = "text"
    NUMBER = "number"  # fits DECIMAL(38,12)
    EXACT = "exact"  # a number that may have more digits: text outside of JSON
    INTEGER = "integer"  # a version, a place in an order: nobody adds it up
    COUNT = "count"  # an integer: how many
    FLAG = "flag"
    INSTANT = "instant"  # UTC
    DAY = "day"
    JSON = "json"  # a list, or a map of unknown keys


_ADDED_UP: Final = frozenset({Kind.NUMBER, Kind.EXACT, Kind.COUNT})
_KINDS: Final[tuple[tuple[type, Kind], ...]] = (
    # The order matters: True is an int, an instant is a date.
    (bool, Kind.FLAG),
    (int, Kind.INTEGER),
    (Decimal, Kind.EXACT),
    (datetime, Kind.INSTANT),
    (date, Kind.DAY),
    (str, Kind.TEXT),
)


def plain_type(annotation: Any) -> Any:
    """A type without its annotations, and without None."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        inner = [each for each in get_args(annotation) if each is not type(None)]
        return plain_type(inner[0]) if len(inner) == 1 else object
    return annotation


def kind_of(annotation: Any) -> Kind:
    """What a column of a type holds."""
    found = plain_type(annotation)
    if not isinstance(found, type):
        return Kind.JSON
    return next((kind for base, kind in _KINDS if issubclass(found, base)), Kind.JSON)


def kind_of_member(member: BillMember) -> Kind:
    """What a column holds that shows a member of bills or lines."""
    return Kind.NUMBER if member.rounded else kind_of(member.type)


class ExportColumn(NamedTuple):
    """One column.

    Attributes:
        name: Its name, dotted where the value is nested.
        kind: What it holds.
        currency: Of money, the column that has its currency: there is a sum for each. None if no
            column has it: there is no sum.
    """

    name: str
    kind: Kind = Kind.TEXT
    currency: str | None = ""

    @property
    def summed(self) -> bool:
        """Whether the manifest has its sum."""
        return self.kind in _ADDED_UP and self.currency is not None


def flat(document: Mapping[str, Any], columns: tuple[ExportColumn, ...]) -> dict[str, Any]:
    """The values of a nested document by column name; what is absent is None."""
    return {column.name: member_at(document, column.name) for column in columns}


def member_at(document: Mapping[str, Any], name: str) -> Any:
    """The value of a nested document at a dotted name; None if it is absent."""
    value: Any = document
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def cell(value: Any, kind: Kind) -> str:
    """A value as the text of a CSV cell; absent is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, datetime):
        return format_instant(value)
    return wire.dumps_sorted(value) if kind is Kind.JSON else str(value)


def mark_text(text: str) -> str:
    """A text as a cell that a spreadsheet shows as it is: with a mark before what may be a formula.

    >>> marked("=1+1"), marked("a=1"), marked("'quoted")
    ("'=1+1", 'a=1', "''quoted")
    """
    return f"{MARK}{text}" if text.startswith(STARTS) else text


def unmark_cell(cell: str) -> str:
    """The text of such a cell.

    >>> unmarked("'=1+1"), unmarked("a=1")
    ('=1+1', 'a=1')
    """
    return cell.removeprefix(MARK)


def formula_free_cell(value: Any, kind: Kind) -> str:
    """A value as the text of a CSV cell in a file for spreadsheets; absent is empty."""
    written = cell(value, kind)
    return mark_text(written) if kind is Kind.TEXT else written
