"""Writing the files of an export: from the lake through DuckDB, from documents row by row."""

import csv
import fcntl
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from meterlake.model import wire
from meterlake.model.errors import Invalid
from meterlake.model.money import LAKE_PRECISION, LAKE_SCALE
from meterlake.model.period import parse_instant
from meterlake.stages.export.columns import Column, Kind, cell, flat
from meterlake.stages.export.measurements import COPY_OPTIONS, Measurements
from meterlake.stages.export.names import Format
from meterlake.stages.gzipped import gzipped
from meterlake.stores.durable import sync

_PIPE_BYTES: Final = 1 << 20
_ROWS: Final = 10_000

_ARROW: Final = {
    Kind.TEXT: pa.string(),
    Kind.NUMBER: pa.decimal128(LAKE_PRECISION, LAKE_SCALE),
    Kind.EXACT: pa.string(),
    Kind.INTEGER: pa.int64(),
    Kind.FLAG: pa.bool_(),
    Kind.INSTANT: pa.timestamp("us", tz="UTC"),
    Kind.DAY: pa.date32(),
    Kind.JSON: pa.string(),
}


def write_measurements(
    connection: duckdb.DuckDBPyConnection,
    measurements: Measurements,
    format: Format,
    path: Path,
    threads: int,
) -> int:
    """Write the measurements of one meter, ordered by uid, and return their number.

    DuckDB sorts (on disk where memory ends), formats and writes; text is compressed on the way.
    """
    query = measurements.rows(format)
    if format is Format.PARQUET:
        rows = _copy(connection, query, format, path)
    else:
        rows = _copy_gzipped(connection, query, format, path, threads)
    sync(path)
    return rows


def _copy(
    connection: duckdb.DuckDBPyConnection, query: str, format: Format, target: Path | str
) -> int:
    name = str(target).replace("'", "''")
    row = connection.execute(f"COPY ({query}) TO '{name}' ({COPY_OPTIONS[format]})").fetchone()
    assert row is not None
    return int(row[0])


def _copy_gzipped(
    connection: duckdb.DuckDBPyConnection, query: str, format: Format, path: Path, threads: int
) -> int:
    reading, writing = os.pipe()
    with suppress(AttributeError, OSError):  # only Linux can, and not without limit
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def copy() -> int:
        try:
            return _copy(connection, query, format, f"/dev/fd/{writing}")
        finally:
            os.close(writing)  # the reader sees the end

    with ThreadPoolExecutor(1) as executor:
        copying = executor.submit(copy)
        try:
            _write_gzipped(iter(lambda: os.read(reading, _PIPE_BYTES), b""), path, threads)
        finally:
            os.close(reading)  # if writing failed, the copy ends with a broken pipe
        return copying.result()


def _write_gzipped(chunks: Iterable[bytes], path: Path, threads: int) -> None:
    with path.open("wb") as file:
        for compressed in gzipped(chunks, threads):
            file.write(compressed)


def write_documents(
    documents: Iterable[Mapping[str, Any]],
    columns: tuple[Column, ...],
    format: Format,
    path: Path,
    threads: int,
) -> None:
    """Write documents in their order: as they are in JSON lines, else flat."""
    if format is Format.JSONL:
        _write_gzipped((wire.dumps(document) + b"\n" for document in documents), path, threads)
    elif format is Format.CSV:
        _write_gzipped(_csv(documents, columns), path, threads)
    else:
        _write_parquet(documents, columns, path)
    sync(path)


def _csv(documents: Iterable[Mapping[str, Any]], columns: tuple[Column, ...]) -> Iterator[bytes]:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    for document in documents:
        row = flat(document, columns)
        writer.writerow([cell(row[column.name], column.kind) for column in columns])
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def _write_parquet(
    documents: Iterable[Mapping[str, Any]], columns: tuple[Column, ...], path: Path
) -> None:
    schema = pa.schema([(column.name, _ARROW[column.kind]) for column in columns])
    waiting = iter(documents)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while rows := [flat(document, columns) for document in islice(waiting, _ROWS)]:
            writer.write_table(
                pa.table([_array(rows, column) for column in columns], schema=schema)
            )


def _array(rows: Sequence[Mapping[str, Any]], column: Column) -> Any:
    values = [_typed(row[column.name], column.kind) for row in rows]
    try:
        return pa.array(values, _ARROW[column.kind])
    except pa.ArrowInvalid as error:
        raise Invalid(column.name, "a value", f"it does not fit the column: {error}") from error


def _typed(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case Kind.INSTANT:
            return value if isinstance(value, datetime) else parse_instant(value)
        case Kind.DAY:
            return value if isinstance(value, date) else date.fromisoformat(value)
        case Kind.NUMBER:
            return Decimal(value)
        case Kind.INTEGER | Kind.FLAG:
            return value
        case _:
            return cell(value, kind)


def digest(path: Path) -> tuple[int, str]:
    """The size and the SHA-256 of a file."""
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
