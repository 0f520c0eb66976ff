"""Blocks of text lines: their encoding, their length, where records end, and a row's own text."""

import codecs
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.measurement import Block
from meterlake.model.measurements.rejection import Reason

# What is kept of a rejected row's text; the file itself is kept whole.
ORIGINAL_MAX: Final = 4096
# Line breaks between quotes: what this many lines do not close is a slip, not a value.
RECORD_LINES_MAX: Final = 1000

_LINE_BREAK: Final = 10
_RETURN: Final = 13
_QUOTE: Final = 34


class LinesOf:
    """Finds the original text of a block's rows, splitting it only when asked."""

    def __init__(self, data: bytes, first: int) -> None:
        self.data = data
        self.first = first
        self.lines: list[bytes] | None = None

    def __call__(self, row: int) -> str:
        """The text of one row's first line, or the beginning of it."""
        return self.whole(row).removesuffix(b"\r")[:ORIGINAL_MAX].decode("utf-8", "replace")

    def whole(self, row: int) -> bytes:
        """One row's first line."""
        if self.lines is None:
            self.lines = self.data.split(b"\n")
        return self.lines[row - self.first]


def utf8_lines(block: Block, name: str) -> bytes:
    """The block as UTF-8 with a line break at the end of every line.

    Raises:
        UnreadableSource: The text is not UTF-8.
    """
    data = block.data
    if not data.isascii():
        try:
            codecs.utf_8_decode(data, "strict", True)
        except UnicodeDecodeError as error:
            line = block.first + data.count(b"\n", 0, error.start)
            detail = (
                f"line {line}: byte 0x{data[error.start]:02x} is not UTF-8; write the file in UTF-8"
            )
            raise UnreadableSource(name, Reason.INVALID_ENCODING, detail) from None
    return data if data.endswith(b"\n") else data + b"\n"


def has_long_line(data: bytes, line_bytes: int) -> bool:
    """Whether a line may exceed the limit; may say so wrongly, never misses one."""
    window = line_bytes // 2
    return any(
        data.find(b"\n", start, start + window) < 0
        for start in range(0, len(data) - window, window)
    )


def without_empty_lines(data: bytes) -> tuple[bytes, NDArray[np.int64] | None]:
    """The lines of a text that hold something, and their indices; None if all do.

    Args:
        data: Text in which every line ends with a line break.
    """
    if b"\n\n" not in data and not data.startswith(b"\n"):
        return data, None
    text = np.frombuffer(data, np.uint8)
    breaks = text == _LINE_BREAK
    empty = breaks.copy()
    empty[1:] &= breaks[:-1]
    return text[~empty].tobytes(), np.flatnonzero(~empty[breaks])


def lf_outside_quotes(data: bytes) -> bytes:
    """Whole records of CSV text, well quoted, with LF for every CRLF outside of quotes."""
    # One byte is found thirty times as fast as two.
    if b"\r" not in data or b"\r\n" not in data:
        return data
    if b'"' not in data:
        return data.replace(b"\r\n", b"\n")
    text = np.frombuffer(data, np.uint8)
    pairs = np.flatnonzero((text[:-1] == _RETURN) & (text[1:] == _LINE_BREAK))
    quotes = np.flatnonzero(text == _QUOTE)
    outside = pairs[np.searchsorted(quotes, pairs) % 2 == 0]
    return np.delete(text, outside).tobytes()


class CsvRecord(NamedTuple):
    """One record of CSV text: the index of its first line, and where it stands in the text.

    Empty lines that follow each other are one record. A record that is not `whole` is one line that is no record: a quote is not closed within the
    limits, text follows a closing quote, or the line is too long. The next line starts afresh.
    """

    line: int
    start: int
    end: int
    whole: bool


class CsvRecords:
    """Where the records of CSV text end: one definition for cutting a file and for decoding it."""

    def __init__(self, delimiter: str, line_bytes: int) -> None:
        separator = re.escape(delimiter.encode())
        quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
        bare = rb'[^"\r\n' + separator + rb"][^\r\n" + separator + rb"]*+"
        value = rb"(?:" + quoted + rb"|" + bare + rb")?+"
        self._record = re.compile(value + rb"(?:" + separator + value + rb")*+\r?\n")
        self._value = re.compile(value)
        self._empty = re.compile(rb"(?:\r?\n)++")
        self._separator = ord(delimiter)
        self.line_bytes = line_bytes

    def cells(self, record: bytes) -> list[bytes]:
        """The values of one record as they are written, in their quotes."""
        found, start = [], 0
        while True:
            match = self._value.match(record, start)
            assert match is not None  # a value may be empty
            found.append(match[0])
            start = match.end() + 1
            if start > len(record):
                return found

    def plain_ends(self, data: bytes) -> NDArray[np.int64] | None:
        """The places after the records, where counting quotes is enough to tell them.

        Returns:
            None if a quote stands where none may, a carriage return neither within quotes nor
            before a line break, or a record exceeds the limits: `walk` then.
        """
        text = np.frombuffer(data, np.uint8)
        breaks = np.flatnonzero(text == _LINE_BREAK)
        quotes = np.flatnonzero(text == _QUOTE)
        if not self._well_quoted(text, quotes):
            return None
        if b"\r" in data:
            lone = np.flatnonzero(text[:-1] == _RETURN)
            lone = lone[text[lone + 1] != _LINE_BREAK]
            if text[-1] == _RETURN or (np.searchsorted(quotes, lone) % 2 == 0).any():
                return None
        outside = np.flatnonzero(np.searchsorted(quotes, breaks) % 2 == 0)
        ends = breaks[outside] + 1
        lengths = np.diff(ends, prepend=0, append=len(data))
        lines = np.diff(outside, prepend=-1, append=len(breaks))
        if lengths.max() > self.line_bytes + 1 or lines.max() > RECORD_LINES_MAX:
            return None
        return ends

    def _well_quoted(self, text: NDArray[np.uint8], quotes: NDArray[np.int64]) -> bool:
        """Whether every quote that opens stands first in its value, and every other one last."""
        opening, closing = quotes[0::2], quotes[1::2]
        if len(opening) and opening[0] == 0:
            opening = opening[1:]
        if len(closing) and closing[-1] == len(text) - 1:
            return False  # Without the byte after it nobody knows what it is.
        return self._structural(text[opening - 1]) and self._structural(text[closing + 1])

    def _structural(self, found: NDArray[np.uint8]) -> bool:
        structural = (found == self._separator) | (found == _LINE_BREAK) | (found == _QUOTE)
        return bool((structural | (found == _RETURN)).all())

    def last_end(self, data: bytes) -> int:
        """Where the last whole record of the data ends that more data cannot change."""
        if b'"' not in data:
            return data.rfind(b"\n") + 1
        ends = self.plain_ends(data)
        if ends is not None:
            return int(ends[-1]) if len(ends) else 0
        end = 0
        for record in self.walk(data, final=False):
            end = record.end
        return end

    def walk(self, data: bytes, *, final: bool) -> Iterator[CsvRecord]:
        """Yield record after record.

        Args:
            data: Text that begins with a record.
            final: Nothing follows it. Otherwise stop where more data could change what is found.
        """
        breaks = np.flatnonzero(np.frombuffer(data, np.uint8) == _LINE_BREAK)
        start = line = 0
        while line < len(breaks):
            if breaks[line] == start or data.startswith(b"\r\n", start):
                empty = self._empty.match(data, start)
                assert empty is not None
                end = empty.end()
                yield CsvRecord(line, start, end, whole=True)
                line, start = line + data.count(b"\n", start, end), end
                continue
            limit = start + self.line_bytes + 1
            if line + RECORD_LINES_MAX <= len(breaks):
                limit = min(limit, int(breaks[line + RECORD_LINES_MAX - 1]) + 1)
            match = self._record.match(data, start, limit)
            if match is None and not final and limit > len(data):
                return
            end = match.end() if match else int(breaks[line]) + 1
            yield CsvRecord(line, start, end, match is not None)
            line += data.count(b"\n", start, end)
            start = end
