"""Cut a stream of bytes into blocks of whole records, in constant memory.

Lines for CSV and NDJSON, elements for a JSON array. Nothing is interpreted here but where a
record ends; a record that is too long is cut out, so that it cannot hurt the others.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import numpy as np

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.measurement import Block
from meterlake.model.measurements.rejection import Reason
from meterlake.model.measurements.text import CsvRecords

_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BETWEEN_ELEMENTS: Final = re.compile(rb"\}\s*,\s*\{")
_BOUNDARY_TRIES: Final = 16
_STRUCTURE: Final = re.compile(rb'["\[\]{},]')
_QUOTED: Final = re.compile(rb'["\\]')
_WHITE: Final = b" \t\r\n"
_BREAKS_TO_SPACES: Final = bytes.maketrans(b"\r\n", b"  ")
_BREAKS_TO_CONTROL: Final = bytes.maketrans(b"\r\n", b"\x01\x01")
_PREFIX_BYTES: Final = 4096
_PART_BYTES: Final = 1 << 18
# Of one block: a rejected row takes a thousand bytes, however short its line is.
LINES_MAX: Final = 1 << 17

# Levels of brackets that are open at the end of a block: counting more is work for nothing.
_LEVELS_MAX: Final = 10_000

_elements: Final = msgspec.json.Decoder(list[msgspec.Raw])


def plain_text(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Drop a UTF-8 byte order mark at the start, and write every CRLF as LF.

    Raises:
        UnreadableSource: The text is UTF-16.
    """
    return with_lf(utf8_text(chunks, name))


def utf8_text(chunks: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Drop a UTF-8 byte order mark at the start; no chunk but the last one ends in a CR.

    Raises:
        UnreadableSource: The text is UTF-16.
    """
    held, first = b"", True
    for chunk in chunks:
        data = held + chunk
        if first and len(data) < len(codecs.BOM_UTF8):
            held = data
            continue
        if first:
            data, first = _without_mark(data, name), False
        held = b"\r" if data.endswith(b"\r") else b""
        yield data.removesuffix(b"\r")
    if held:
        yield _without_mark(held, name) if first else held


def with_lf(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Write every CRLF as LF; none is cut by the end of a chunk."""
    for chunk in chunks:
        yield chunk.replace(b"\r\n", b"\n") if b"\r" in chunk else chunk


def _without_mark(data: bytes, name: str) -> bytes:
    if data.startswith(_UTF16_MARKS):
        raise UnreadableSource(
            name, Reason.INVALID_ENCODING, "UTF-16, not UTF-8: write the file in UTF-8"
        )
    return data.removeprefix(codecs.BOM_UTF8)


class LineSplitter:
    """Cuts lines; with `records`, a line break between double quotes does not end a record."""

    def __init__(self, line_bytes: int, records: CsvRecords | None = None, line: int = 1) -> None:
        self.line_bytes = line_bytes
        self.records = records
        self.line = line
        self.rest = b""
        self.skipping = False

    def split(self, chunks: Iterable[bytes]) -> Iterator[Block]:
        """Yield blocks of about a chunk's size, each of whole lines."""
        for chunk in _few_lines(chunks):
            whole, self.rest = self._split(self._skip(chunk))
            if whole:
                yield self._block(whole)
            if len(self.rest) > self.line_bytes and b"\n" not in self.rest:
                yield Block(self.rest[:_PREFIX_BYTES], self.line, 1, oversized=True)
                self.rest, self.skipping = b"", True
        if self.rest:
            yield self._block(self.rest)

    def _block(self, data: bytes) -> Block:
        # A quarter of the time of `bytes.count`, and no other thread waits for it.
        text = np.frombuffer(data, np.uint8)
        parts = range(0, len(data), _PART_BYTES)
        # Part by part: the marks of a whole block would be new memory every time.
        breaks = sum(
            int(np.count_nonzero(text[part : part + _PART_BYTES] == ord("\n"))) for part in parts
        )
        block = Block(data, self.line, breaks + (not data.endswith(b"\n")))
        self.line += block.lines
        return block

    def _split(self, chunk: bytes) -> tuple[bytes, bytes]:
        """What is whole of the rest and the chunk after it, and the new rest."""
        if self.records and (b'"' in self.rest or b'"' in chunk):
            data = self.rest + chunk
            end = self.records.last_end(data)
            return data[:end], data[end:]
        end = chunk.rfind(b"\n") + 1
        if not end:
            return b"", self.rest + chunk
        return b"".join([self.rest, memoryview(chunk)[:end]]), chunk[end:]

    def _skip(self, data: bytes) -> bytes:
        if not self.skipping:
            return data
        end = data.find(b"\n") + 1
        if not end:
            return b""
        self.skipping = False
        self.line += 1
        return data[end:]


class ArraySplitter:
    """Cuts a JSON array into blocks of one element a line.

    A prefix of the array that ends between two elements is itself a valid array once it is
    closed, and no other prefix is: so a boundary is a place where the decoder agrees. Where it
    does not, brackets and quotes are counted: an element that is broken inside harms no other.
    """

    def __init__(self, line_bytes: int, name: str) -> None:
        self.line_bytes = line_bytes
        self.name = name
        self.row = 1
        self.rest = b""
        self.ends = _ElementEnds()
        self.opened = self.closed = self.skipping = False

    def split(self, chunks: Iterable[bytes]) -> Iterator[Block]:
        """Yield blocks of about a chunk's size, each of whole elements.

        Raises:
            UnreadableSource: It is not one whole JSON array and nothing else.
        """
        for chunk in chunks:
            self.rest += chunk
            if self._inside():
                yield from self._sure()
                yield from self._count_elements()
        self._inside()
        if not self.closed:
            problem = "cut short" if self.opened else "empty"
            raise self._damaged_error(f"the file is {problem}: no ] closes the array")

    def _inside(self) -> bool:
        """Whether elements may follow; nothing else than white space stands around the array."""
        if not self.opened:
            self.rest = self.rest.lstrip(_WHITE)
            if self.rest and not self.rest.startswith(b"["):
                raise self._damaged_error("a JSON file must be an array")
            self.opened, self.rest = bool(self.rest), self.rest[1:]
        if self.closed and self.rest.strip(_WHITE):
            raise self._damaged_error("something follows the array")
        return self.opened and not self.closed

    def _sure(self) -> Iterator[Block]:
        """Whole elements that the decoder agrees to."""
        if self.skipping:
            return
        end, elements = _boundary(self.rest)
        if elements:
            self.rest = self.rest[end:]
            self.ends = _ElementEnds()
            yield from self._blocks([bytes(element) for element in elements])

    def _count_elements(self) -> Iterator[Block]:
        """Whole elements by their brackets; the beginning of one that is too long."""
        elements: list[bytes] = []
        start = 0
        for end in self.ends.find(self.rest):
            mark = self.rest[end : end + 1]
            self.closed = mark == b"]"
            if mark == b"}":
                raise self._damaged_error("a } closes nothing")
            if not self.skipping:
                elements += self._element(self.rest[start:end].strip(_WHITE), len(elements))
            start, self.skipping = end + 1, False
            if self.closed:
                break
        self.rest = self.ends.cut(self.rest, start)
        yield from self._blocks(elements)
        if self.ends.depth > _LEVELS_MAX:
            number, levels = self.row, f"{_LEVELS_MAX:,}"
            raise self._damaged_error(f"element {number} opens more than {levels} brackets")
        if not self.closed and (self.skipping or len(self.rest) > self.line_bytes):
            if not self.skipping:
                beginning = self.rest.lstrip(_WHITE)[:_PREFIX_BYTES].translate(_BREAKS_TO_SPACES)
                yield Block(beginning, self.row, 1, oversized=True)
                self.row += 1
            self.rest, self.skipping = self.ends.cut(self.rest, len(self.rest)), True

    def _element(self, text: bytes, before: int) -> list[bytes]:
        if text:
            return [text]
        if self.closed and self.row + before == 1:
            return []
        raise self._damaged_error(f"element {self.row + before} is empty")

    def _blocks(self, elements: list[bytes]) -> Iterator[Block]:
        for start in range(0, len(elements), LINES_MAX):
            some = elements[start : start + LINES_MAX]
            yield Block(b"".join(map(_line, some)), self.row, len(some))
            self.row += len(some)

    def _damaged_error(self, problem: str) -> UnreadableSource:
        return UnreadableSource(
            self.name,
            Reason.DAMAGED_FILE,
            f"not a JSON array: {problem}; write one, or one object on each line",
        )


class _ElementEnds:
    """Finds where the elements of an array end; goes on where the text stopped."""

    def __init__(self) -> None:
        self.scanned = 0
        self.depth = 0
        self.quoted = False

    def find(self, text: bytes) -> Iterator[int]:
        """Yield the places of the `,` between elements, of the `]` after them, or of a stray `}`."""
        while self.scanned < len(text):
            match = (_QUOTED if self.quoted else _STRUCTURE).search(text, self.scanned)
            if match is None:
                self.scanned = len(text)
                return
            self.scanned = match.end()
            mark = match[0]
            if mark == b"\\":
                self.scanned += 1  # May point beyond the text: the next part begins inside.
            elif mark == b'"':
                self.quoted = not self.quoted
            elif self.depth == 0 and mark in b",]}":
                yield match.start()
            elif mark != b",":
                self.depth += 1 if mark in b"[{" else -1

    def cut(self, text: bytes, start: int) -> bytes:
        """The text from `start` on, where an element begins or goes on."""
        rest = text[start:]
        self.scanned -= start
        if self.scanned == 0 == self.depth and not self.quoted:
            rest = rest.lstrip(_WHITE)
        return rest


def _few_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Cut chunks of very many lines: each line may become a row with values of its own."""
    for chunk in chunks:
        if len(chunk) <= LINES_MAX or chunk.count(b"\n") <= LINES_MAX:
            yield chunk
            continue
        breaks = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
        start = 0
        for end in [*(breaks[LINES_MAX - 1 :: LINES_MAX] + 1).tolist(), len(chunk)]:
            if end > start:
                yield chunk[start:end]
            start = end


def _boundary(buffer: bytes) -> tuple[int, list[msgspec.Raw]]:
    places = [match.start() + 1 for match in _BETWEEN_ELEMENTS.finditer(buffer)]
    for place in reversed(places[-_BOUNDARY_TRIES:]):
        try:
            elements = _elements.decode(b"[" + buffer[:place] + b"]")
        except (msgspec.DecodeError, RecursionError):
            continue
        return buffer.index(b",", place) + 1, elements
    return 0, []


def _line(element: bytes) -> bytes:
    r"""The element as a line of its own; line breaks between its members are white space."""
    if b"\n" not in element and b"\r" not in element:
        return element + b"\n"
    try:
        msgspec.json.decode(element, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        # It may stand in a text, where JSON allows none: a character that it allows nowhere.
        return element.translate(_BREAKS_TO_CONTROL) + b"\n"
    return element.translate(_BREAKS_TO_SPACES) + b"\n"
