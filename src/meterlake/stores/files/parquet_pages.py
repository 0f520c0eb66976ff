"""What the pages of a Parquet file become in memory, known before any of them is decoded.

A page of a few bytes can stand for gigabytes: a value that is stored once and meant by each row, a
value that repeats the one before, a page that unpacks to a thousand times its size. The headers of
pages say so, and only they: a file's own statistics may say anything.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.rejection import Reason

# Thousands of row groups with hundreds of columns fit; unpacked it takes about twenty times as much.
FOOTER_BYTES_MAX: Final = 8 << 20
# Nodes of a schema, which Arrow walks recursively.
NODES_MAX: Final = 5_000
# Of the columns that are read, one page and one dictionary each are in memory at a time.
PAGES_BYTES_MAX: Final = 192 << 20
# Of one row, in its columns that are read.
ROW_BYTES_MAX: Final = 16 << 20
_MAGIC: Final = b"PAR1"
_TAIL: Final = 8
_HEADER_BYTES: Final = 1 << 12
_HEADER_BYTES_MAX: Final = 1 << 20
_FIXED_BYTES: Final = 16
# The kinds of pages and encodings by their numbers in Parquet's format.
_DATA, _DICTIONARY, _DATA_2 = 0, 2, 3
_DELTA_BYTE_ARRAY: Final = 7
_BY_DICTIONARY: Final = frozenset({2, 8})
_CODECS: Final = {
    "SNAPPY": "snappy",
    "GZIP": "gzip",
    "BROTLI": "brotli",
    "ZSTD": "zstd",
    "LZ4": "lz4_raw",
}
Struct = dict[int, Any]

# What damaged bytes raise.
DAMAGED: Final = (ValueError, IndexError, KeyError, TypeError, AttributeError)

# Types of values by their numbers in the protocol.
_TRUE: Final = 1
_FALSE: Final = 2
_DOUBLE: Final = 7
_LIST: Final = 9
_DEPTH_MAX: Final = 16
_VARINT_BYTES_MAX: Final = 10
# Of numbers that are packed together; the format's own writers have 32.
_PART_MAX: Final = 1024


class ParquetPage(NamedTuple):
    """What the header of a page says.

    Attributes:
        kind: Its number in the format.
        offset: Where its bytes begin.
        packed: How many bytes it has in the file.
        size: And unpacked.
        values: How many values it holds, nulls included.
        encoding: Their encoding.
        levels: So many bytes before the values are not packed.
        is_packed: Whether the others are.
    """

    kind: int
    offset: int
    packed: int
    size: int
    values: int
    encoding: int
    levels: int = 0
    is_packed: bool = True


class ColumnSize(NamedTuple):
    """What a column of a row group needs.

    Attributes:
        pages: The bytes of its dictionary and its largest page together.
        row: The most bytes of one value.
    """

    pages: int
    row: int


def check_footer(path: Path, name: str) -> None:
    """Refuse a file whose description of itself is larger than any that is meant well.

    Raises:
        UnreadableSource: It is, or it is no Parquet file.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
        if len(tail) < _TAIL or tail[4:] != _MAGIC:
            return  # Arrow says what it is instead.
        length = int.from_bytes(tail[:4], "little")
        if length > FOOTER_BYTES_MAX:
            detail = f"its footer has {length} bytes, more than {FOOTER_BYTES_MAX}; write fewer columns or row groups"
            raise UnreadableSource(name, Reason.TOO_LARGE, detail)
        file.seek(max(size - _TAIL - length, 0))
        nodes = _nodes(file.read(length))
    if nodes > NODES_MAX:
        detail = f"its schema has {nodes} nodes, more than {NODES_MAX}; write fewer columns"
        raise UnreadableSource(name, Reason.TOO_LARGE, detail)


def _nodes(footer: bytes) -> int:
    """How many nodes the schema in a footer has; 0 if it cannot be read."""
    try:
        return ThriftReader(footer).length_of_list(2)
    except DAMAGED:
        return 0


class PageSizes:
    """Measures the row groups of a file."""

    def __init__(
        self,
        file: BinaryIO,
        table: pq.ParquetFile,
        columns: Sequence[str],
        name: str,
        check: Callable[[int], None],
    ) -> None:
        """Measure some columns of a file.

        Args:
            file: Its bytes.
            table: What Arrow knows of it.
            columns: The columns that will be read, with all their members.
            name: Its name, for messages.
            check: Refuses so many bytes of all pages together.
        """
        self._file = file
        self._metadata = table.metadata
        self._name = name
        self._check = check
        self._measured = 0
        wanted = tuple(f"{column}." for column in columns)
        self._columns = [
            number
            for number in range(len(table.schema))
            if f"{table.schema.column(number).path}.".startswith(wanted)
        ]

    def rows_at_once(self, group: int, budget: int) -> int:
        """How many rows of a row group together take no more than so many bytes; at least one.

        Raises:
            UnreadableSource: Its pages, or a row, are too large for memory, or damaged.
        """
        sizes = [self._measure(group, column) for column in self._columns]
        pages = sum(each.pages for each in sizes)
        if pages > PAGES_BYTES_MAX:
            detail = (
                f"the pages of row group {group + 1} have {pages} bytes unpacked in the columns that"
                f" are read, more than {PAGES_BYTES_MAX}; write smaller pages"
            )
            raise UnreadableSource(self._name, Reason.TOO_LARGE, detail)
        row = sum(each.row for each in sizes)
        if row > ROW_BYTES_MAX:
            detail = (
                f"a row of row group {group + 1} may have {row} bytes, more than {ROW_BYTES_MAX};"
                " write shorter values"
            )
            raise UnreadableSource(self._name, Reason.TOO_LARGE, detail)
        return max(1, budget // max(row, 1))

    def _measure(self, group: int, column: int) -> ColumnSize:
        chunk = self._metadata.row_group(group).column(column)
        fixed = self._metadata.schema.column(column).length or 0
        nullable = self._metadata.schema.column(column).max_definition_level > 0
        is_text = chunk.physical_type == "BYTE_ARRAY"
        codec, dictionary, largest = chunk.compression, 0, 0
        value = longest = max(_FIXED_BYTES, fixed)
        try:
            for page in self._pages(chunk):
                # Before it is looked into: many row groups may have the same pages.
                self._measured += page.size
                self._check(self._measured)
                if page.kind == _DICTIONARY:
                    # It is unpacked here, too: not before its size is known.
                    dictionary = max(dictionary, page.size)
                    if is_text and page.size <= PAGES_BYTES_MAX:
                        longest = max(longest, self._longest(page, codec))
                    continue
                largest = max(largest, page.size)
                if not is_text:
                    continue
                if page.encoding in _BY_DICTIONARY:
                    value = max(value, longest)
                elif page.encoding == _DELTA_BYTE_ARRAY and page.size <= PAGES_BYTES_MAX:
                    value = max(value, self._longest_delta(page, codec, nullable=nullable))
                else:
                    value = max(value, -(-page.size // max(page.values, 1)))
        except DAMAGED as error:
            detail = (
                f"no Parquet file: a page of row group {group + 1}: {error}; write the file again"
            )
            raise UnreadableSource(self._name, Reason.DAMAGED_FILE, detail) from None
        return ColumnSize(dictionary + largest, value)

    def _pages(self, chunk: pq.ColumnChunkMetaData) -> Iterator[ParquetPage]:
        place, seen = chunk.data_page_offset, 0
        if chunk.has_dictionary_page and 0 < (chunk.dictionary_page_offset or 0) < place:
            place = chunk.dictionary_page_offset
        while seen < chunk.num_values:
            page = self._page(place)
            yield page
            seen += page.values if page.kind in {_DATA, _DATA_2} else 0
            place = page.offset + page.packed

    def _page(self, place: int) -> ParquetPage:
        length = _HEADER_BYTES
        while True:
            self._file.seek(place)
            reader = ThriftReader(self._file.read(length))
            try:
                header = reader.struct()
                break
            except DAMAGED:
                # Statistics in it may be long.
                length *= 16
                if length > _HEADER_BYTES_MAX:
                    raise
        return _page_of(header, place + reader.place)

    def _longest(self, page: ParquetPage, codec: str) -> int:
        """The longest value of a dictionary: each is a length and so many bytes."""
        data = self._unpacked(page, codec)
        if data is None:
            return page.size
        place = longest = 0
        end = len(data) - 4
        while place <= end:
            length = int.from_bytes(data[place : place + 4], "little")
            longest = max(longest, length)
            place += 4 + length
        return min(longest, page.size)

    def _longest_delta(self, page: ParquetPage, codec: str, *, nullable: bool) -> int:
        """The longest value of a page whose values each begin like the one before."""
        data = self._unpacked(page, codec)
        if data is None:
            return page.size
        if page.kind == _DATA and nullable:
            # The levels come first, with their length.
            data = data[4 + int.from_bytes(data[:4], "little") :]
        reader = ThriftReader(data)
        try:
            prefixes, suffixes = reader.deltas(page.values), reader.deltas(page.values)
        except DAMAGED:
            return page.size  # No value is longer than all that the page holds.
        return max(map(sum, zip(prefixes, suffixes, strict=False)), default=0)

    def _unpacked(self, page: ParquetPage, codec: str) -> bytes | None:
        self._file.seek(page.offset + page.levels)
        data = self._file.read(page.packed - page.levels)
        if codec == "UNCOMPRESSED" or not page.is_packed:
            return data
        if codec not in _CODECS:
            return None
        try:
            size = page.size - page.levels
            return bytes(pa.decompress(data, size, _CODECS[codec], asbytes=True))
        except (pa.ArrowException, OSError):
            return None  # Arrow will say so, about the same bytes.


def _page_of(header: Struct, offset: int) -> ParquetPage:
    kind, size, packed = header[1], header[2], header[3]
    about = header.get({_DATA: 5, _DICTIONARY: 7, _DATA_2: 8}.get(kind, 0), {})
    if size < 0 or packed < 0:
        raise ValueError(f"its size is {min(size, packed)}")
    if kind == _DATA_2:
        levels = about.get(5, 0) + about.get(6, 0)
        if not 0 <= levels <= min(size, packed):
            raise ValueError(f"its levels have {levels} bytes")
        return ParquetPage(
            kind, offset, packed, size, about[1], about[4], levels, about.get(7, True)
        )
    if kind == _DATA:
        if about[1] < 0:
            raise ValueError(f"it has {about[1]} values")
        return ParquetPage(kind, offset, packed, size, about[1], about[2])
    return ParquetPage(kind, offset, packed, size, about.get(1, 0), about.get(2, 0))


class ThriftReader:
    """Reads values one after the other.

    Attributes:
        place: How many bytes are read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def struct(self, depth: int = 0) -> Struct:
        """Read a struct: the values of its members by their numbers.

        Raises:
            ValueError: It is damaged; so do the other errors of `DAMAGED` say.
        """
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = self._value(head & 0x0F, depth)
        return found

    def length_of_list(self, number: int) -> int:
        """Read a struct as far as a list in it: how many elements that has."""
        at = 0
        while head := self._byte():
            at = at + (head >> 4) if head >> 4 else self._zigzag()
            if at == number and head & 0x0F == _LIST:
                return self._list_head()[0]
            self._value(head & 0x0F, 0)
        return 0

    def deltas(self, count: int) -> list[int]:
        """Read numbers that are stored as differences (DELTA_BINARY_PACKED).

        Raises:
            ValueError: They are damaged, or more than so many; so do other errors of `DAMAGED` say.
        """
        block, parts, total, value = (
            self._varint(), self._varint(), self._varint(), self._zigzag(),
        )  # fmt: skip
        each = block // parts if parts else 0
        if not 0 < each <= _PART_MAX or total > count:
            raise ValueError(f"its blocks have {block} values, {total} in all")
        found = [value] if total else []
        while len(found) < total:
            least = self._zigzag()
            widths = self._take(parts)
            for width in widths:
                if width > 64:  # noqa: PLR2004
                    raise ValueError(f"its numbers have {width} bits")
                if len(found) >= total:
                    break
                bits = int.from_bytes(self._take(width * each // 8), "little")
                mask = (1 << width) - 1
                for _ in range(min(each, total - len(found))):
                    value += least + (bits & mask)
                    bits >>= width
                    found.append(value)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2:
                found: Any = kind == _TRUE
            case 3:
                found = self._byte()
            case 4 | 5 | 6:
                found = self._zigzag()
            case 7 | 8:
                found = self._take(8 if kind == _DOUBLE else self._varint())
            case 9 | 10:
                length, inner = self._list_head()
                # In a list a truth value is a byte.
                found = [
                    (self._byte() if inner in {_TRUE, _FALSE} else self._value(inner, depth + 1))
                    for _ in range(length)
                ]
            case 12:
                found = self.struct(depth + 1)
            case _:
                raise ValueError(f"a value of type {kind}")
        return found

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        length = head >> 4
        return (self._varint() if length == 0x0F else length), head & 0x0F  # noqa: PLR2004

    def _byte(self) -> int:
        found = self._data[self.place]
        self.place += 1
        return found

    def _take(self, count: int) -> bytes:
        found = self._data[self.place : self.place + count]
        if len(found) < count:
            raise ValueError("it is cut short")
        self.place += count
        return found

    def _varint(self) -> int:
        found = 0
        for shift in range(_VARINT_BYTES_MAX):
            byte = self._byte()
            found |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:  # noqa: PLR2004
                return found
        raise ValueError("a number has no end")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
