"""CSV blocks to columns of text: fast where a block is clean, line by line where it is not.

Every way gives the same rows: empty is absent, but `""` is an empty text where the column holds
texts of fields; `row` is the number of the file's line on which the record begins, a record with
too few or too many columns is rejected and harms no other.
"""

import codecs
import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.columns import check_names
from meterlake.model.measurements.measurement import Block, Decoded
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.measurements.text import (
    CsvRecords,
    LinesOf,
    has_long_line,
    lf_outside_quotes,
    utf8_lines,
    without_empty_lines,
)

# Lines are bounded by settings, and so are fields.
csv.field_size_limit(1 << 25)

_LARGE_BLOCK: Final = 1 << 30
_EMPTY: Final = b'""'
# What may separate values where nothing says what does.
DELIMITERS: Final = (",", ";", "\t", "|")


def header(line: bytes, name: str, delimiter: str = ",") -> list[str]:
    """Read the names of the columns from a file's first line.

    Raises:
        UnreadableSource: There is none, there are too many columns, or a name stands twice. A
            column without a name is nobody's, like any other column that is not known.
    """
    try:
        rows = list(csv.reader([line.decode()], delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UnreadableSource(
            name, Reason.MISSING_HEADER, f"no header: {error}; the first line must name the columns"
        ) from None
    names = [column.strip() for column in rows[0]] if rows else []
    if not any(names):
        raise UnreadableSource(
            name, Reason.MISSING_HEADER, "the first line names no columns; it must name all of them"
        )
    check_names(names, name)
    return names


def find_delimiter(line: bytes, wanted: Collection[str]) -> str:
    """What separates the names in a file's first line: what gives most of the wanted ones.

    Of several that give as many, the one that gives most columns, and the comma before others.
    """

    def found(delimiter: str) -> tuple[int, int]:
        try:
            [names] = csv.reader([line.decode("utf-8", "replace")], delimiter=delimiter)
        except (csv.Error, ValueError):
            return 0, 0
        return len(set(wanted).intersection(map(str.strip, names))), len(names)

    return max(DELIMITERS, key=found)


@dataclass(frozen=True)
class CsvDecoder:
    """Decodes the blocks of one CSV file.

    Attributes:
        texts: The columns in which an empty value in quotes is a text. In all others it is absent,
            like one without quotes: many programs put every value into quotes.
    """

    name: str
    columns: Sequence[str]
    line_bytes: int
    delimiter: str = ","
    texts: frozenset[str] = frozenset()
    records: CsvRecords = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", CsvRecords(self.delimiter, self.line_bytes))

    def decode(self, block: Block) -> Decoded:
        """Decode one block.

        Raises:
            UnreadableSource: The text is not UTF-8.
        """
        if block.oversized:
            detail = f"longer than {self.line_bytes} bytes"
            frame = pl.DataFrame(schema={"row": pl.Int64, **dict.fromkeys(self.columns, pl.String)})
            rejection = Rejection(block.first, Reason.MALFORMED_ROW, detail)
            return Decoded(frame, [rejection], LinesOf(block.data, block.first))
        data = utf8_lines(block, self.name)
        frame, rejected = self._fast(data, block.lines) or self._slow(data)
        numbered = frame.with_columns(pl.col("row") + block.first)
        shifted = [bad._replace(row=bad.row + block.first) for bad in rejected]
        return Decoded(numbered, shifted, LinesOf(data, block.first), b"\0" in data)

    def _only_texts(self, frame: pl.DataFrame, data: bytes) -> pl.DataFrame:
        """The frame without empty values that stood in quotes where they are no texts."""
        if _EMPTY not in data:
            return frame
        return frame.with_columns(
            pl.when(pl.col(name) != "").then(pl.col(name)).alias(name)
            for name in self.columns
            if name not in self.texts
        )

    def _fast(self, data: bytes, lines: int) -> tuple[pl.DataFrame, list[Rejection]] | None:
        # Both engines would drop a byte order mark.
        odd = data.startswith(codecs.BOM_UTF8)
        if odd or len(self.columns) == 1 or has_long_line(data, self.line_bytes):
            return None
        if b'"' in data:
            ends = self.records.plain_ends(data)
            if ends is None or len(ends) != lines:
                return None  # Only the slow way knows the lines of records with line breaks.
        whole = lf_outside_quotes(data)
        found = self._in_columns(whole, lines)
        if found is not None:
            return found
        # To look for empty lines takes as long as a tenth of all else: few files have any.
        held, numbers = without_empty_lines(whole)
        found = None if numbers is None else self._in_columns(held, len(numbers))
        return found if found is None or numbers is None else _number_rows(*found, numbers)

    def _in_columns(self, data: bytes, lines: int) -> tuple[pl.DataFrame, list[Rejection]] | None:
        """Decode text in which every line is a record."""
        if b'"' not in data:
            if b"\r" in data:
                return None  # The engines would take a lone one for a line break.
            try:
                frame = pl.read_csv(
                    data,
                    has_header=False,
                    schema=dict.fromkeys(self.columns, pl.String),
                    separator=self.delimiter,
                    quote_char=None,
                )
            except pl.exceptions.PolarsError:
                frame = None
            if frame is not None and len(frame) == lines and self._all_whole(frame, data):
                return frame.with_row_index("row").cast({"row": pl.Int64}), []
        return self._with_arrow(data, lines)

    def _all_whole(self, frame: pl.DataFrame, data: bytes) -> bool:
        """Whether no record is too short, after none was too long.

        Polars fills a short record up with nulls; where there are nulls at the end, the number of
        separators tells.
        """
        if not frame[:, -1].null_count():
            return True
        separators = len(frame) * (len(self.columns) - 1)
        return data.count(self.delimiter.encode()) == separators

    def _with_arrow(self, data: bytes, lines: int) -> tuple[pl.DataFrame, list[Rejection]] | None:
        bad: list[Rejection] = []

        def reject(row: pa.csv.InvalidRow) -> str:
            detail = _wrong_count(row.actual_columns, len(self.columns))
            bad.append(Rejection(row.number - 1, Reason.MALFORMED_ROW, detail))
            return "skip"

        try:
            table = pa.csv.read_csv(
                pa.py_buffer(data),
                read_options=pa.csv.ReadOptions(
                    column_names=list(self.columns), use_threads=False, block_size=_LARGE_BLOCK
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=True,
                    invalid_row_handler=reject,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(self.columns, pa.string()),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                    null_values=[""],
                ),
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows + len(bad) != lines:
            return None
        skipped = {rejection.row for rejection in bad}
        rows = [row for row in range(lines) if row not in skipped] if skipped else range(lines)
        as_frame = pl.from_arrow(table)
        assert isinstance(as_frame, pl.DataFrame)
        frame = as_frame.with_columns(pl.Series("row", rows, dtype=pl.Int64))
        return self._only_texts(frame, data), bad

    def _slow(self, data: bytes) -> tuple[pl.DataFrame, list[Rejection]]:
        rejected: list[Rejection] = []
        rows: list[tuple[int | str | None, ...]] = []
        for record in self.records.walk(data, final=True):
            if data.startswith((b"\n", b"\r\n"), record.start):
                continue
            text = data[record.start : record.end - 1].removesuffix(b"\r").decode()
            if not record.whole:
                # Why a line is no record.
                if len(text.encode()) > self.line_bytes:
                    problem = f"longer than {self.line_bytes} bytes"
                elif '"' in text:
                    problem = "a quote that nothing closes, or text after a closing quote"
                else:
                    problem = "a carriage return outside of quotes"
                rejected.append(Rejection(record.line, Reason.MALFORMED_ROW, problem))
                continue
            values = self._values(text)
            if len(values) == len(self.columns):
                rows.append((record.line, *values))
            else:
                detail = _wrong_count(len(values), len(self.columns))
                rejected.append(Rejection(record.line, Reason.MALFORMED_ROW, detail))
        schema = {"row": pl.Int64, **dict.fromkeys(self.columns, pl.String)}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return self._only_texts(frame, data), rejected

    def _values(self, text: str) -> list[str | None]:
        """The values of a record; None where there is nothing, not even quotes."""
        values = next(csv.reader([text], delimiter=self.delimiter, strict=True))
        if '""' not in text:
            return [value or None for value in values]
        # Which of the empty ones stood in quotes, the reader does not tell.
        cells = self.records.cells(text.encode())
        return [
            value or (value if quoted else None)
            for value, quoted in zip(values, (cell == _EMPTY for cell in cells), strict=True)
        ]


def _number_rows(
    frame: pl.DataFrame, rejected: list[Rejection], numbers: NDArray[np.int64]
) -> tuple[pl.DataFrame, list[Rejection]]:
    """Rows with the numbers of the lines that they stood on."""
    rows = pl.Series("row", numbers[frame["row"].to_numpy()], dtype=pl.Int64)
    return frame.with_columns(rows), [bad._replace(row=int(numbers[bad.row])) for bad in rejected]


def _wrong_count(actual: int, expected: int) -> str:
    return f"{actual} columns where the header has {expected}"
