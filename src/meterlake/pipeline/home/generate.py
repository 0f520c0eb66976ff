"""Seeded, realistic measurements for benchmarks and demos: the verb `generate`.

Every value of a row follows from the seed and the row's number alone, through one integer mixing
function; so the same arguments give the same bytes, in constant memory, at any block size.
"""

import gzip
import io
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
import pyarrow.parquet as pq
import zstandard

from meterlake.model.errors import CHECK_PATH, Invalid, Unavailable
from meterlake.pipeline.home import synthetic

FORMATS: Final = ("csv", "ndjson", "json", "parquet")
BLOCK_ROWS: Final = 100_000

# Before, between and after the rows of a format.
_FRAMES: Final = {
    "csv": (",".join(synthetic.CSV_COLUMNS).encode() + b"\n", b"\n", b"\n"),
    "ndjson": (b"", b"\n", b"\n"),
    "json": (b"[\n", b",\n", b"\n]\n"),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to generate: measurements of the meter `llm_tokens` of the sample configuration.

    Attributes:
        rows: How many.
        seed: Another seed gives other measurements.
        accounts: How many accounts use it; the first use most (Zipf's law).
        first_day: The first day, in UTC.
        days: How many days they spread over, in their order but for some late ones.
        bad: The share of rows that ingest must reject.
        repeats: The share of rows that are there already, uid and all.
    """

    rows: int
    seed: int = 0
    accounts: int = 40
    first_day: date = date(2026, 10, 1)
    days: int = 31
    bad: float = 0.0
    repeats: float = 0.0

    def check(self) -> None:
        """Refuse what cannot be generated.

        Raises:
            Invalid: A number is out of its range.
        """
        bounds: tuple[tuple[str, float, float, float], ...] = (
            ("rows", self.rows, 0, 10**12),
            ("seed", self.seed, 0, 2**63),
            ("accounts", self.accounts, 1, 1_000_000),
            ("days", self.days, 1, 3660),
            ("bad", self.bad, 0, 1),
            ("repeats", self.repeats, 0, 0.9),
        )
        for name, value, low, high in bounds:
            if not low <= value <= high:
                raise Invalid(name, value, f"it must be from {low} to {high}")


@dataclass(frozen=True, slots=True)
class Generated:
    """What a generated file holds and what ingest must make of it, alone in an empty lake."""

    path: Path
    received: int
    accepted: int
    repeats: int
    rejected: int
    size_bytes: int


def generate(
    recipe: Recipe,
    out: Path,
    format: str | None = None,
    progress: Callable[[int], None] = lambda _rows: None,
) -> Generated:
    """Write measurements to a file, atomically: it appears whole or not at all.

    Args:
        recipe: What to generate.
        out: The file; `.gz` or `.zst` at its end compresses it.
        format: csv, ndjson, json or parquet; by the file's name when absent.
        progress: Called with the number of rows of every block that was written.

    Raises:
        Invalid: The recipe, the format or the name cannot be served.
        Unavailable: The file cannot be written.
    """
    recipe.check()
    suffixes = [suffix.lstrip(".") for suffix in out.suffixes]
    if suffixes and suffixes[-1] in {"gz", "zst"}:
        suffixes.pop()
    kind = format or (suffixes[-1] if suffixes else "")
    kind = "ndjson" if kind == "jsonl" else kind
    if kind not in FORMATS:
        raise Invalid(
            "format", kind, f"it must be one of {', '.join(FORMATS)}, or a file name that ends so"
        )
    counts = np.zeros(3, dtype=np.int64)
    write = _write_parquet if kind == "parquet" else _write_text
    try:
        with _replacing(out) as file, _open_compressed(file, out.name) as sink:
            write(_count_blocks(recipe, counts, progress), kind, sink)
    except OSError as error:
        raise Unavailable(str(out), error.strerror or str(error), CHECK_PATH) from None
    accepted, repeats, rejected = (int(count) for count in counts)
    return Generated(out, recipe.rows, accepted, repeats, rejected, out.stat().st_size)


@contextmanager
def _replacing(out: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the name at the end, or nothing."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def _count_blocks(
    recipe: Recipe, counts: synthetic.Whole, progress: Callable[[int], None]
) -> Iterator[synthetic.SyntheticBlock]:
    stream = synthetic.Stream(
        seed=recipe.seed,
        rows=recipe.rows,
        accounts=recipe.accounts,
        first_day=recipe.first_day,
        days=recipe.days,
        shares=(recipe.bad, recipe.repeats),
    )
    for start in range(0, recipe.rows, BLOCK_ROWS):
        block = stream.block(start, min(start + BLOCK_ROWS, recipe.rows))
        counts += block.outcomes()
        yield block
        progress(len(block))


def _write_text(blocks: Iterator[synthetic.SyntheticBlock], kind: str, file: IO[bytes]) -> None:
    head, between, tail = _FRAMES[kind]
    file.write(head)
    first = True
    for block in blocks:
        file.write(b"" if first else between)
        file.write(block.text(kind, between.decode()))
        first = False
    file.write(b"" if first and kind != "json" else tail)


def _write_parquet(blocks: Iterator[synthetic.SyntheticBlock], _kind: str, file: IO[bytes]) -> None:
    with pq.ParquetWriter(
        _Counting(file), synthetic.ARROW_SCHEMA, compression="zstd", compression_level=1
    ) as writer:
        for block in blocks:
            writer.write_table(block.table())


def _open_compressed(file: IO[bytes], name: str) -> AbstractContextManager[IO[bytes]]:
    if name.endswith(".gz"):
        # No name and no time in it: the same rows give the same bytes.
        return cast("IO[bytes]", gzip.GzipFile("", "wb", fileobj=file, compresslevel=1, mtime=0))
    if name.endswith(".zst"):
        compressor = zstandard.ZstdCompressor(level=1)
        return cast("IO[bytes]", compressor.stream_writer(file, closefd=False))
    return nullcontext(file)


class _Counting(io.RawIOBase):
    """A file that knows how much was written to it, whatever a compressor makes of that."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._position += len(data)
        return len(data)
