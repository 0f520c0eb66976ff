"""Texts in CSV that no spreadsheet takes for a formula, and back.

The rule: a text whose first character is one of `STARTS` gets an apostrophe in front. The apostrophe
is one of them, so a cell begins with one exactly where it was put there, and every text comes back.
Numbers, instants, flags and JSON are left as they are: none of them is a formula.
"""

from typing import Any, Final

from meterlake.stages.export.column_kinds import Kind, cell

MARK: Final = "'"
# What formulas begin with, in full width too, and blanks that programs may cut off before them.
# Source: OWASP, CSV Injection.
STARTS: Final = (*"=+-@\uff1d\uff0b\uff0d\uff20", *" \t\r\n\v\f\u00a0\u3000", MARK)


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


def safe_cell(value: Any, kind: Kind) -> str:
    """A value as the text of a CSV cell in a file for spreadsheets; absent is empty."""
    written = cell(value, kind)
    return mark_text(written) if kind is Kind.TEXT else written
