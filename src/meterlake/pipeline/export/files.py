"""Writing the files of an export from documents, row by row."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from meterlake.model.errors import Invalid
from meterlake.model.values import wire
from meterlake.model.values.money import LAKE_PRECISION, LAKE_SCALE
from meterlake.model.values.period import parse_instant
from meterlake.model.work.export_request import Format
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stages.decode.gzipped import compress
from meterlake.stages.export.column_kinds import ExportColumn, Kind, cell, flat, safe_cell
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


def _write_gzipped(chunks: Iterable[bytes], path: Path, limits: FileLimits) -> None:
    with path.open("wb") as file:
        for compressed in compress(_first(chunks, limits.most), limits.threads):
            file.write(compressed)


def _first(chunks: Iterable[bytes], most: int) -> Iterator[bytes]:
    """The chunks up to the one with which there are so many bytes; the next one is not made."""
    for chunk in chunks:
        yield chunk
        most -= len(chunk)
        if most <= 0:
            return


@disk()
def write_documents(
    documents: Iterable[Mapping[str, Any]],
    columns: tuple[ExportColumn, ...],
    format: Format,
    path: Path,
    limits: FileLimits,
    *,
    spreadsheet: bool = False,
) -> None:
    """Write documents in their order: as they are in JSON lines, else flat.

    Args:
        documents: Nested as on the wire; no more of them are taken than are written.
        columns: Those of the flat formats.
        format: How they are written.
        path: The file.
        limits: How large it gets, and how many compress.
        spreadsheet: Whether texts of CSV are marked so that none is taken for a formula.
    """
    if format is Format.JSONL:
        _write_gzipped((wire.dumps(each) + b"\n" for each in documents), path, limits)
    elif format is Format.CSV:
        cell_of = safe_cell if spreadsheet else cell
        _write_gzipped(_csv(documents, columns, cell_of), path, limits)
    else:
        _write_parquet(documents, columns, path, limits.most)
    sync(path)


def _csv(
    documents: Iterable[Mapping[str, Any]],
    columns: tuple[ExportColumn, ...],
    cell_of: Callable[[Any, Kind], str],
) -> Iterator[bytes]:
    header = [column.name for column in columns]
    rows = (flat(document, columns) for document in documents)
    cells = ([cell_of(row[column.name], column.kind) for column in columns] for row in rows)
    lines = csv_lines(chain((header,), cells))
    yield "".join(islice(lines, 2)).encode()  # No file ends behind its header if there is a row.
    for line in lines:
        yield line.encode()


def _write_parquet(
    documents: Iterable[Mapping[str, Any]], columns: tuple[ExportColumn, ...], path: Path, most: int
) -> None:
    schema = schema_of(columns)
    waiting = iter(documents)
    with (
        closing(pa.OSFile(str(path), "wb")) as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        while rows := [flat(document, columns) for document in islice(waiting, _ROWS)]:
            writer.write_table(
                pa.table([_array(rows, column) for column in columns], schema=schema)
            )
            if file.tell() >= most:
                break


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
