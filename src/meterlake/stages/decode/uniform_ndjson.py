"""NDJSON lines that differ in nothing but their values, as programs write them: read in place.

The first line of a block says where values stand. What stands between them is compared in all
lines, byte by byte; texts are then where their quotes are, and are not copied. Where one byte is
otherwise, or a number is none that the lake keeps as it stands, the block is left to the readers of
any JSON.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from meterlake.model.measurements.measurement import (
    CATEGORY_KEYS,
    FIELDS_KEY,
    FIXED_KEYS,
    NUMERIC_KEYS,
)
from meterlake.model.values.money import LAKE_INTEGER_DIGITS, LAKE_PRECISION, LAKE_SCALE

Places = NDArray[np.int64]
Words = NDArray[np.uint64]

_TOKEN: Final = re.compile(rb'(?P<text>"[^"]*")|(?P<number>-?[0-9][0-9.eE+-]*)|[{}]|[\s:,]+|.')
_NUMBER: Final = (
    rf"^-?(?:0|[1-9][0-9]{{0,{LAKE_INTEGER_DIGITS - 1}}})(?:\.[0-9]{{1,{LAKE_SCALE}}})?$"
)
_QUOTE: Final = 34
_BREAK: Final = 10
_SPACE: Final = 32
_WORD: Final = 8
_PAIR: Final = 16
# Arrow keeps texts of so many bytes in their views, of longer ones the beginning.
_INLINE: Final = 12
_BEGINNING: Final = 4
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)
_HALF: Final = np.uint64(32)
_LAKE_NUMBER: Final = pl.Decimal(LAKE_PRECISION, LAKE_SCALE)
_PART_BYTES: Final = 1 << 18
_PART_LINES: Final = 4096


class _Value(NamedTuple):
    """A value that every line has.

    Attributes:
        column: Its column.
        numeric: Whether it is a number; else it is a text.
        before: The bytes between the value before it and this one, with the quotes of both.
        quotes: So many quotes of its line stand before it.
        gap: From its end to the next quote, or to the end of its line.
    """

    column: str
    numeric: bool
    before: bytes
    quotes: int
    gap: int


class _Form(NamedTuple):
    """What all lines of a block have in common; `end` is what follows the last value."""

    values: list[_Value]
    end: bytes
    quotes: int


def read_alike(data: bytes, lines: int, fields: Collection[str]) -> dict[str, pl.Series] | None:
    """Read a block whose lines differ in nothing but their values.

    Args:
        data: Lines, each with its line break; the first one is an object without a repeated key.
        lines: How many there are.
        fields: The columns of all fields.

    Returns:
        The columns that its lines have: texts as they stand, numbers as the lake keeps them; None
        where another reader has to look.
    """
    line = data[: data.index(b"\n") + 1]
    form = None if b"\\" in data else _form(line, fields)
    if form is None:
        return None
    # Where the line breaks stand.
    text = np.frombuffer(data, np.uint8)
    parts = range(0, len(data), _PART_BYTES)
    breaks = np.concatenate(
        [np.flatnonzero(text[part : part + _PART_BYTES] == _BREAK) + part for part in parts]
    )
    return _Lines(data, form, breaks).columns() if len(breaks) == lines else None


def _form(line: bytes, fields: Collection[str]) -> _Form | None:
    """The form of a line without escapes; None if it holds what only others read."""
    values: list[_Value] = []
    end = quotes = 0
    for path, token in _members(line):
        column = _column(path, fields)
        numeric = token["number"] is not None
        if column is None or numeric != (path[0] in NUMERIC_KEYS):
            return None
        start, stop = token.span()
        if not numeric:
            start, stop = start + 1, stop - 1
        before = line[end:start]
        quotes += before.count(b'"')
        following = line.find(b'"', stop)
        gap = (len(line) - 1 if following < 0 else following) - stop
        values.append(_Value(column, numeric, before, quotes, gap))
        end = stop
    total = line.count(b'"')
    return _Form(values, line[end:], total) if values and total else None


def _members(line: bytes) -> Iterator[tuple[list[str], re.Match[bytes]]]:
    """The members of a line that are no objects, with their keys from the outermost one on."""
    path: list[str] = []
    key: str | None = None
    for token in _TOKEN.finditer(line):
        text = token[0]
        if token["text"] is not None and key is None:
            key = text[1:-1].decode()
        elif token["text"] is not None or token["number"] is not None:
            yield [*path, key or ""], token
            key = None
        elif text == b"{":
            path, key = ([*path, key] if key is not None else path), None
        elif text == b"}":
            path = path[:-1]
        elif text.strip(b" \t\n:,"):
            yield [], token  # An array, or true, false or null.


def _column(path: list[str], fields: Collection[str]) -> str | None:
    """The column of a member; None if no column takes it."""
    match path:
        case [key] if key in FIXED_KEYS or key == FIELDS_KEY:
            return key
        case [key, code] if key in CATEGORY_KEYS and f"{key}.{code}" in fields:
            return f"{key}.{code}"
        case _:
            return None


class _Lines:
    """The lines of a block that should have a form."""

    def __init__(self, data: bytes, form: _Form, breaks: Places) -> None:
        self.text = _Text(data)
        self.form = form
        self.breaks = breaks
        self.starts = np.concatenate([[0], breaks[:-1] + 1])
        self.views = [np.empty((len(breaks), 2), np.uint64) for _ in form.values]

    def columns(self) -> dict[str, pl.Series] | None:
        """The values by column, if all lines have the form."""
        # What is looked at again and again stays in the processor's cache.
        for first in range(0, len(self.breaks), _PART_LINES):
            if not self._read(slice(first, first + _PART_LINES)):
                return None
        columns: dict[str, pl.Series] = {}
        for value, views in zip(self.form.values, self.views, strict=True):
            found = self.text.series(views)
            if value.numeric:
                if not found.str.contains(_NUMBER).all():
                    return None
                found = found.str.to_decimal(scale=LAKE_SCALE).cast(_LAKE_NUMBER)
            columns[value.column] = found.alias(value.column)
        return columns

    def _read(self, part: slice) -> bool:
        """Note where the values of some lines stand; False if a line does not have the form."""
        starts, breaks = self.starts[part], self.breaks[part]
        quotes = self.text.quotes(
            int(starts[0]), int(breaks[-1]) + 1, self.form.quotes, len(breaks)
        )
        if quotes is None:
            return False
        at = starts
        for value, views in zip(self.form.values, self.views, strict=True):
            if not self.text.equal(at, value.before):
                return False
            start = at + len(value.before)
            # Where an opening quote stands where the form says, the next one closes it.
            if not value.numeric and (quotes[value.quotes - 1] != start - 1).any():
                return False
            at = (breaks if value.quotes == len(quotes) else quotes[value.quotes]) - value.gap
            sizes = at - start
            if value.numeric and sizes.min() < 1:
                return False
            self.text.look(start, sizes, views[part])
        whole = (at + len(self.form.end) == breaks + 1).all()
        return bool(whole) and self.text.equal(at, self.form.end)


class _Text:
    """Text that is looked at in many places at once; places ascend."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self._bytes = np.frombuffer(data, np.uint8)
        # Pairs of words that begin at any byte.
        self._pairs = np.ndarray((max(len(data) - _PAIR + 1, 0),), "V16", data, 0, (1,))

    def quotes(self, start: int, end: int, count: int, lines: int) -> Places | None:
        """Where quotes stand, one row for the first of each line, one for the second and so on.

        Returns:
            None if there are more or fewer, or characters that JSON forbids within texts.
        """
        text = self._bytes[start:end]
        if int(np.count_nonzero(text < _SPACE)) != lines:
            return None
        found = np.flatnonzero(text == _QUOTE)
        if len(found) != lines * count:
            return None
        return np.ascontiguousarray(found.reshape(lines, count).T) + start

    def equal(self, at: Places, text: bytes) -> bool:
        """Whether a text stands at all of the places."""
        for offset in range(0, len(text), _PAIR):
            part = text[offset : offset + _PAIR]
            low, high = np.frombuffer(part.ljust(_PAIR, b"\0"), "<u8")
            found = self._pair(at + offset)
            if ((found[:, 0] ^ low) & _MASKS[min(len(part), _WORD)]).any():
                return False
            if len(part) > _WORD and ((found[:, 1] ^ high) & _MASKS[len(part) - _WORD]).any():
                return False
        return True

    def look(self, start: Places, sizes: Places, views: Words) -> None:
        """Fill in the views of Arrow for the texts at some places."""
        found = self._pair(start)
        low, high = found[:, 0], found[:, 1]
        shortest, longest = int(sizes.min()), int(sizes.max())
        if shortest < _BEGINNING:
            low = low & _MASKS[np.minimum(sizes, _WORD)]
        views[:, 0] = sizes.view(np.uint64) | (low << _HALF)
        if longest > _INLINE:
            views[:, 1] = start.view(np.uint64) << _HALF
        if shortest <= _INLINE:
            rest = (low >> _HALF) | (high << _HALF)
            rest &= _MASKS[np.clip(sizes - _BEGINNING, 0, _WORD)]
            views[:, 1] = (
                rest if longest <= _INLINE else np.where(sizes > _INLINE, views[:, 1], rest)
            )

    def series(self, views: Words) -> pl.Series:
        """The texts of views; they stay where they are."""
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self.data)]
        found = pl.from_arrow(pa.Array.from_buffers(pa.string_view(), len(views), buffers))
        assert isinstance(found, pl.Series)
        return found

    def _pair(self, at: Places) -> Words:
        """The two words from each place on; beyond the end of the text there are zeros."""
        near = int(np.searchsorted(at, len(self.data) - _PAIR, "right"))
        found = self._pairs[at[:near]].view("<u8").reshape(-1, 2)
        if near == len(at):
            return found
        far = [self.data[place : place + _PAIR].ljust(_PAIR, b"\0") for place in at[near:].tolist()]
        return np.concatenate([found, np.frombuffer(b"".join(far), "<u8").reshape(-1, 2)])
