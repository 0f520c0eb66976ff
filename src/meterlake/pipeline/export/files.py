"""Writing the files of an export from documents, row by row."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.model.values.money import LAKE_PRECISION, LAKE_SCALE
from meterlake.model.values.period import parse_instant
from meterlake.model.work.export_request import Format
from meterlake.stages.decode.csv_lines import CsvWriter
from meterlake.stages.decode.gzipped import GzipStream
from meterlake.stages.export.column_kinds import (
    ExportColumn,
    Kind,
    cell,
    flat,
    formula_free_cell,
    member_at,
)
from meterlake.stores.files.durable import disk, sync

_ROWS: Final = 10_000

_ARROW: Final = {
    Kind.TEXT: pa.string(),
    Kind.NUMBER: pa.decimal128(LAKE_PRECISION, LAKE_SCALE),
    Kind.EXACT: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.COUNT: pa.int64(),
    Kind.FLAG: pa.bool_(),
    Kind.INSTANT: pa.timestamp("us", tz="UTC"),
    Kind.DAY: pa.date32(),
    Kind.JSON: pa.string(),
}


def schema_of(columns: Sequence[ExportColumn]) -> pa.Schema:
    """The columns of a file of Parquet."""
    return pa.schema([(column.name, _ARROW[column.kind]) for column in columns])


class FileLimits(NamedTuple):
    """What a file takes.

    Attributes:
        most: It ends with the row with which it has so many bytes, before they are compressed;
            whatever that is, it has a row if there is one.
        threads: How many compress.
    """

    most: int
    threads: int


class DocumentFile(Protocol):
    """A file that documents are written to, one after the other.

    Attributes:
        is_full: Whether it ends with the document that was added last.
    """

    is_full: bool

    def add(self, document: Mapping[str, Any]) -> None:
        """Write a document."""


@contextmanager
def open_documents(
    path: Path,
    columns: tuple[ExportColumn, ...],
    format: Format,
    limits: FileLimits,
    *,
    spreadsheet: bool = False,
) -> Iterator[DocumentFile]:
    """Begin a file of documents: as they are in JSON lines, else flat. It is synced at its end.

    Args:
        path: The file.
        columns: Those of the flat formats.
        format: How documents are written.
        limits: How large it gets, and how many compress.
        spreadsheet: Whether texts of CSV are marked so that none is taken for a formula.

    Raises:
        Unavailable: The disk failed.
    """
    with disk():
        if format is Format.PARQUET:
            with (
                closing(pa.OSFile(str(path), "wb")) as file,
                pq.ParquetWriter(file, schema_of(columns), compression="zstd") as writer,
            ):
                rows = _ParquetRows(file, writer, columns, limits.most)
                yield rows
                rows.flush()
        else:
            line_of: Callable[[Mapping[str, Any]], bytes] = _json_line
            header = b""
            if format is Format.CSV:
                line_of = _csv_line(columns, formula_free_cell if spreadsheet else cell)
                header = CsvWriter().line([column.name for column in columns]).encode()
            with path.open("wb") as target, GzipStream(target, limits.threads) as stream:
                stream.write(header)
                yield _Lines(stream, line_of, limits.most - len(header))
        sync(path)


@dataclass(slots=True)
class _Lines:
    """Documents as lines of text."""

    stream: GzipStream
    line_of: Callable[[Mapping[str, Any]], bytes]
    left: int
    is_full: bool = False

    def add(self, document: Mapping[str, Any]) -> None:
        line = self.line_of(document)
        self.stream.write(line)
        self.left -= len(line)
        self.is_full = self.left <= 0


def _json_line(document: Mapping[str, Any]) -> bytes:
    return wire.dumps(document) + b"\n"


def _csv_line(
    columns: tuple[ExportColumn, ...], cell_of: Callable[[Any, Kind], str]
) -> Callable[[Mapping[str, Any]], bytes]:
    line_of, cells = CsvWriter().line, [(each.name, each.kind) for each in columns]

    def line(document: Mapping[str, Any]) -> bytes:
        row = [cell_of(member_at(document, name), kind) for name, kind in cells]
        return line_of(row).encode()

    return line


class _ParquetRows:
    """Documents as rows of Parquet, in groups; the file may end behind each of them."""

    def __init__(
        self,
        file: pa.OSFile,
        writer: pq.ParquetWriter,
        columns: tuple[ExportColumn, ...],
        most: int,
    ) -> None:
        self._file, self._writer = file, writer
        self._columns, self._most = columns, most
        self._rows: list[Mapping[str, Any]] = []
        self.is_full = False

    def add(self, document: Mapping[str, Any]) -> None:
        self._rows.append(flat(document, self._columns))
        if len(self._rows) == _ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            arrays = [_array(self._rows, column) for column in self._columns]
            self._writer.write_table(pa.table(arrays, schema=schema_of(self._columns)))
            self._rows = []
            self.is_full = self._file.tell() >= self._most


def _array(rows: Sequence[Mapping[str, Any]], column: ExportColumn) -> Any:
    values = [_convert(row[column.name], column.kind) for row in rows]
    try:
        return pa.array(values, _ARROW[column.kind])
    except pa.ArrowInvalid as error:
        raise Invalid(
            column.name, "a value", f"it must fit the type of the column: {error}"
        ) from error


def _convert(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case Kind.INSTANT:
            return value if isinstance(value, datetime) else parse_instant(value)
        case Kind.DAY:
            return value if isinstance(value, date) else date.fromisoformat(value)
        case Kind.NUMBER:
            return Decimal(value)
        case Kind.INTEGER | Kind.COUNT | Kind.FLAG:
            return value
        case _:
            return cell(value, kind)


def digest(path: Path) -> tuple[int, str]:
    """The size and the SHA-256 of a file."""
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
