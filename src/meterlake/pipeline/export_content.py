"""Reading the files of an export again, to compare them with their manifest."""

import csv
import gzip
import hashlib
import io
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, BinaryIO, Final

import pyarrow.parquet as pq

from meterlake.model import wire
from meterlake.model.errors import Invalid
from meterlake.model.export_request import Format
from meterlake.stages.export.columns import Column, flat
from meterlake.stages.export.manifest import ExactSums, Sum

_BLOCK: Final = 1 << 20
_ROWS: Final = 10_000

# Rows by the names of columns: the numbers as they are summed, and the currencies.
Rows = Iterator[Mapping[str, Any]]


class Hashed(io.RawIOBase):
    """A stream that is read once; its size and SHA-256 are known at its end."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer from the source."""
        data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        self._digest.update(data)
        self.size_bytes += len(data)
        return len(data)

    def to_end(self) -> None:
        """Read what nobody wanted."""
        while self.read(_BLOCK):
            pass

    @property
    def sha256(self) -> str:
        """Of what was read."""
        return self._digest.hexdigest()


def counted(
    stream: BinaryIO, format: Format, columns: Sequence[Column]
) -> tuple[int, Mapping[str, Sum]]:
    """The number of rows of a file, and the sums of its numbers, from its content.

    Args:
        stream: The file, from its start; all of its content is read.
        format: How it is written.
        columns: What it should have.

    Raises:
        Invalid: It has other columns.
        Exception: It is no such file; decoders have errors of many kinds.
    """
    sums, rows = ExactSums(columns), 0
    for row in _READ[format](stream, columns, sums.needed):
        rows += 1
        sums.add(row)
    return rows, sums.totals


def _csv(stream: BinaryIO, columns: Sequence[Column], needed: Sequence[Column]) -> Rows:
    text = io.TextIOWrapper(gzip.GzipFile(fileobj=stream), encoding="utf-8", newline="")
    records = csv.reader(text, strict=True)
    names = next(records, [])
    _expect(names, columns)
    places = [(column, names.index(column.name)) for column in needed]
    for record in records:
        if len(record) != len(names):
            raise Invalid("row", len(record), f"one of {len(names)} cells")
        yield {column.name: _number(record[place], column) for column, place in places}


def _jsonl(stream: BinaryIO, columns: Sequence[Column], needed: Sequence[Column]) -> Rows:
    del columns
    for line in gzip.GzipFile(fileobj=stream):
        document = wire.loads(line)
        # Answers of the Data Explorer have dots in the names of their members.
        yield flat(document, tuple(needed)) | {
            each.name: document[each.name] for each in needed if each.name in document
        }


def _parquet(stream: BinaryIO, columns: Sequence[Column], needed: Sequence[Column]) -> Rows:
    with _seekable(stream) as file, pq.ParquetFile(file) as table:
        _expect(table.schema_arrow.names, columns)
        for batch in table.iter_batches(_ROWS, columns=[each.name for each in needed]):
            values = [batch.column(each.name).to_pylist() for each in needed]
            for number in range(batch.num_rows):
                row = (column[number] for column in values)
                yield {c.name: _number(v, c) for c, v in zip(needed, row, strict=True)}


@contextmanager
def _seekable(stream: BinaryIO) -> Iterator[BinaryIO]:
    """All of a stream in a file without a name; Parquet is read from its end."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file, _BLOCK)
        file.seek(0)
        yield file


def _expect(names: Sequence[str], columns: Sequence[Column]) -> None:
    wanted = [column.name for column in columns]
    if list(names) != wanted:
        raise Invalid("columns", ", ".join(names), ", ".join(wanted))


def _number(value: str | Decimal | None, column: Column) -> Any:
    if value is None or value == "":
        return None
    return Decimal(value) if column.numeric else value


_READ: Final = {Format.CSV: _csv, Format.JSONL: _jsonl, Format.PARQUET: _parquet}
