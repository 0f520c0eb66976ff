"""Writing rows as files of a bounded size, with the sums of their numbers, as they stream by.

Where a file ends follows from the rows alone: not from threads, nor from how the rows arrive.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from meterlake.model.values.money import LAKE_INTEGER_DIGITS, ZERO, exact
from meterlake.stages.decode.gzipped import GzipStream

# A file of Parquet may end behind so many rows.
GROUP_ROWS: Final = 122_880
_LIMIT: Final = 10**LAKE_INTEGER_DIGITS
# A column without equal values: a dictionary of them is begun and thrown away.
_UNIQUE: Final = "uid"


class RowBlock(NamedTuple):
    """Rows that come together.

    Attributes:
        columns: What Parquet has; of text, at least the numbers. They are DECIMAL, or text where
            they may have more digits.
        lines: The rows as text, each with the end of its line; None for Parquet.
    """

    columns: pa.RecordBatch
    lines: pa.Array | None = None

    @property
    def rows(self) -> int:
        """How many."""
        return int(self.columns.num_rows)

    def cut(self, start: int, stop: int) -> "RowBlock":
        """Some of the rows."""
        lines = None if self.lines is None else self.lines.slice(start, stop - start)
        return RowBlock(self.columns.slice(start, stop - start), lines)

    def text(self) -> memoryview:
        """All lines, one after the other."""
        ends, data = self._places()
        return data[ends[0] : ends[-1]]

    def fitting(self, size: int) -> int:
        """How many of the first lines have no more bytes than that together."""
        ends, _ = self._places()
        return int(np.searchsorted(ends[1:], ends[0] + size, side="right"))

    def _places(self) -> tuple[Any, memoryview]:
        """Where each line ends, behind where the first one starts; and the bytes."""
        assert self.lines is not None
        _, offsets, data = self.lines.buffers()
        begin, count = self.lines.offset, len(self.lines)
        ends = np.frombuffer(offsets, np.int32)[begin : begin + count + 1]
        return ends.astype(np.int64), memoryview(data or b"")


@dataclass(slots=True)
class Sums:
    """Exact running totals of columns of numbers; None without values."""

    names: Sequence[str]
    totals: dict[str, Decimal | None] = field(init=False)

    def __post_init__(self) -> None:
        self.totals = dict.fromkeys(self.names)

    def add(self, columns: pa.RecordBatch) -> None:
        """Add rows."""
        with exact():
            for name in self.names:
                values = columns.column(name)
                if values.null_count == len(values):
                    continue
                found = None
                if pa.types.is_decimal(values.type):
                    extremes = pc.min_max(values).as_py().values()
                    if len(values) * max(each.copy_abs() for each in extremes) < _LIMIT:
                        found = Decimal(pc.sum(values).as_py())
                if found is None:
                    filled = (each for each in values.to_pylist() if each is not None)
                    found = sum(map(Decimal, filled), ZERO)
                self.totals[name] = (self.totals[name] or ZERO) + found


@dataclass(slots=True)
class FilePiece:
    """One file of the rows.

    Attributes:
        path: Where it is.
        rows: How many it has.
        sums: The sums of its numbers.
    """

    path: Path
    sums: Sums
    rows: int = 0

    def add(self, block: RowBlock) -> None:
        """Count rows that are written."""
        self.rows += block.rows
        self.sums.add(block.columns)


@dataclass(frozen=True, slots=True)
class RowOutput:
    """Where rows go to.

    Attributes:
        path: The path of the file of a number, from 1.
        numbers: The columns that are summed.
        most: The bytes of a file: of text before it is compressed, which no file exceeds that has
            more than one row; of Parquet as it is written, up to the end of `GROUP_ROWS` rows.
        threads: How many compress.
    """

    path: Callable[[int], Path]
    numbers: Sequence[str]
    most: int
    threads: int

    def piece(self, number: int) -> FilePiece:
        """An empty file."""
        return FilePiece(self.path(number), Sums(self.numbers))


def write_text(blocks: Iterable[RowBlock], header: bytes, output: RowOutput) -> list[FilePiece]:
    """Write lines as files compressed with gzip, at least one; syncing them is left to the caller.

    Args:
        blocks: All rows, in their order.
        header: What every file begins with.
        output: Where to.
    """
    pieces: list[FilePiece] = []
    rows = _Rows(blocks)
    while not (pieces and rows.over):
        piece = output.piece(len(pieces) + 1)
        pieces.append(piece)
        with piece.path.open("wb") as file, GzipStream(file, output.threads) as stream:
            stream.write(header)
            for text in rows.filling(piece, output.most - len(header)):
                stream.write(text)
    return pieces


class _Rows:
    """Rows of which every file takes as many as fit."""

    def __init__(self, blocks: Iterable[RowBlock]) -> None:
        self._blocks = iter(blocks)
        self._next = next(self._blocks, None)

    @property
    def over(self) -> bool:
        """Whether there are no more."""
        return self._next is None

    def filling(self, piece: FilePiece, size: int) -> Iterator[memoryview]:
        while (block := self._next) is not None:
            fits = block.fitting(size)
            if not fits and not piece.rows:
                fits = 1  # It fits nowhere.
            taken = block.cut(0, fits)
            text = taken.text()
            piece.add(taken)
            size -= len(text)
            yield text
            if fits < block.rows:
                self._next = block.cut(fits, block.rows)
                return
            self._next = next(self._blocks, None)


def write_parquet(
    blocks: Iterable[RowBlock], schema: pa.Schema, output: RowOutput
) -> list[FilePiece]:
    """Write rows as files of Parquet, at least one; syncing them is left to the caller.

    Args:
        blocks: All rows, in their order.
        schema: Their columns.
        output: Where to.
    """
    pieces: list[FilePiece] = []
    repeated = [name for name in schema.names if name != _UNIQUE]
    groups = _groups(blocks, schema)
    group = next(groups, None)
    while group is not None or not pieces:
        piece = output.piece(len(pieces) + 1)
        pieces.append(piece)
        with (
            closing(pa.OSFile(str(piece.path), "wb")) as file,
            pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=repeated) as writer,
            ThreadPoolExecutor(1, thread_name_prefix="parquet") as pool,
        ):
            while group is not None and (not piece.rows or file.tell() < output.most):
                writing = pool.submit(writer.write_batch, group)
                piece.add(RowBlock(group))
                group = next(groups, None)  # The next rows come while these are written.
                writing.result()
    return pieces


def _groups(blocks: Iterable[RowBlock], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in groups of one number, so that a file's bytes do not depend on how they come."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for block in blocks:
        rest = block.columns
        while count + rest.num_rows >= GROUP_ROWS:
            waiting.append(rest.slice(0, GROUP_ROWS - count))
            rest = rest.slice(GROUP_ROWS - count)
            yield pa.concat_batches(waiting).cast(schema)
            waiting, count = [], 0
        waiting.append(rest)
        count += rest.num_rows
    if count:
        yield pa.concat_batches(waiting).cast(schema)
