"""Rows as lines of CSV that every reader takes for the same rows."""

import csv
from collections.abc import Iterable, Iterator
from typing import Final

_END: Final = "\r\n"


class _Line:
    """Where a writer writes to; it gives the line back."""

    def write(self, text: str, /) -> str:
        return text


class CsvWriter:
    """Makes one line after the other."""

    def __init__(self) -> None:
        # A writer puts cells in quotes that have a character of its line end. Given a line feed
        # alone, it leaves carriage returns bare, and readers take those for the end of the row.
        self._writer = csv.writer(_Line(), lineterminator=_END)

    def line(self, row: Iterable[str]) -> str:
        """A row as a line that ends with a line feed; a cell is in quotes only where it has to be."""
        return f"{self._writer.writerow(row).removesuffix(_END)}\n"


def csv_lines(rows: Iterable[Iterable[str]]) -> Iterator[str]:
    r"""Rows as lines that end with a line feed; a cell is in quotes only where it has to be.

    >>> list(csv_lines([["a b", "", "c,d", "e\rf"]]))
    ['a b,,"c,d","e\rf"\n']
    """
    return map(CsvWriter().line, rows)
