"""Files of measurements as bytes: their hash, their format, their verified decompression."""

import codecs
import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from meterlake.model.errors import CHECK_PATH, Unavailable, UnreadableSource
from meterlake.model.measurements.columns import check_names
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import Compression, Format, SourceFormat
from meterlake.model.measurements.rejection import Reason
from meterlake.settings import Settings
from meterlake.stores.files.parquet_pages import PageSizes, check_footer
from meterlake.stores.files.zip_file import only_member

_COMPRESSIONS: Final[dict[str, Compression]] = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".zip": "zip",
}
_MAGIC: Final[dict[bytes, Compression]] = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
}
_FORMATS: Final[dict[str, Format]] = {
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".parquet": "parquet",
}
_BEGINNINGS: Final[dict[bytes, Format]] = {b"PAR1": "parquet", b"[": "json", b"{": "ndjson"}
# So many bytes tell what a file is whose name does not.
_HEAD_BYTES: Final = 1 << 16
_DELIMITERS: Final = frozenset(",;\t|")
_PLAIN: Final = frozenset("\t\r")
BATCH_ROWS: Final = 65_536
_BUFFER_BYTES: Final = 1 << 20


@dataclass
class Position:
    """How far a file is read.

    Attributes:
        bytes: So many of the file's own bytes, compressed as they may be.
    """

    bytes: int = 0


# What any file may become, however small it is.
_UNPACKED_BYTES: Final = 64 << 20
_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Budget:
    """How much work a file may be, by its size as it came: it may be small and mean very much.

    Attributes:
        batch_bytes: Of rows of a Parquet file that are decoded at once.
        limit_bytes: Of all that it holds, unpacked, one after the other.
        limit_rows: How many rows.
        size_bytes: The size of the file as it came.
    """

    batch_bytes: int
    limit_bytes: int
    limit_rows: int
    size_bytes: int

    @classmethod
    def of(cls, size: int, settings: Settings) -> "Budget":
        """The budget of a file of some size."""
        unpacked = _UNPACKED_BYTES + settings.source_ratio * size
        return cls(
            settings.block_bytes,
            min(settings.source_bytes, unpacked),
            _ROWS + settings.source_rows_per_byte * size,
            size,
        )

    def check_bytes(self, size: int, name: str) -> None:
        """Refuse what becomes too large.

        Raises:
            UnreadableSource: It holds more bytes than it may.
        """
        if size > self.limit_bytes:
            detail = (
                f"holds more than {self.limit_bytes} bytes, unpacked, in {self.size_bytes};"
                " METERLAKE_SOURCE_RATIO and METERLAKE_SOURCE_BYTES say how many it may: split it, or set them higher"
            )
            raise UnreadableSource(name, Reason.TOO_LARGE, detail)

    def check_rows(self, rows: int, name: str) -> None:
        """Refuse what holds too many rows.

        Raises:
            UnreadableSource: It holds more rows than it may.
        """
        if rows > self.limit_rows:
            detail = (
                f"holds more than {self.limit_rows} rows in {self.size_bytes} bytes;"
                " METERLAKE_SOURCE_ROWS_PER_BYTE says how many it may: split it, or set that higher"
            )
            raise UnreadableSource(name, Reason.TOO_LARGE, detail)


def digest(path: Path) -> tuple[str, int]:
    """The SHA-256 of a file's bytes in hex, and its size in bytes.

    Raises:
        Unavailable: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
            return found, file.tell()
    except OSError as error:
        raise Unavailable("file", f"{path.name}: {error.strerror}", CHECK_PATH) from error


def recognize_format(path: Path, name: str, mapping: Mapping | None) -> SourceFormat:
    """Tell a file's format: by the end of its name, where that says nothing by its first bytes.

    In a zip file it is the name of the one file in it that counts first.

    Raises:
        UnreadableSource: Neither tells, or a zip file holds anything but one file.
        Unavailable: The file cannot be read.
    """
    found, compression = _by_name(name, mapping)
    if found is None and compression is None:
        compression = _compression_of(_head(path, name, None))
    if compression == "zip":
        with only_member(path, name) as (member, _):
            inner, nested = _by_name(member.filename, mapping)
        if nested:
            raise _nested_archive(name)
        found = inner or found
    return SourceFormat(found or _by_content(path, name, compression), compression)


def _by_name(name: str, mapping: Mapping | None) -> tuple[Format | None, Compression | None]:
    stem = Path(name.lower())
    compression = _COMPRESSIONS.get(stem.suffix)
    if compression:
        stem = Path(stem.stem)
    return (mapping.format if mapping else None) or _FORMATS.get(stem.suffix), compression


def _by_content(path: Path, name: str, compression: Compression | None) -> Format:
    head = _head(path, name, compression)
    if _compression_of(head):
        raise _nested_archive(name)
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    for beginning, found in _BEGINNINGS.items():
        if text.startswith(beginning):
            return found
    if not _is_header(text):
        known = ", ".join(_FORMATS)
        detail = (
            f"the name ends in none of {known} (plain, .gz, .zst or .zip),"
            " and the first bytes are of none of these formats: give it the name of its format"
        )
        raise UnreadableSource(name, Reason.UNKNOWN_FORMAT, detail)
    return "csv"


def _is_header(text: bytes) -> bool:
    """Whether a text begins with a line that can name columns."""
    line, _, _ = text.partition(b"\n")
    try:
        shown = line.decode()
    except UnicodeDecodeError:
        return False
    return any(each in shown for each in _DELIMITERS) and all(
        char.isprintable() or char in _PLAIN for char in shown
    )


def _head(path: Path, name: str, compression: Compression | None) -> bytes:
    head = b""
    budget = Budget(_HEAD_BYTES, _HEAD_BYTES * 2, 0, 0)
    for chunk in chunks(path, name, compression, _HEAD_BYTES, budget):
        head += chunk
        if len(head) >= _HEAD_BYTES:
            break
    return head


def _compression_of(head: bytes) -> Compression | None:
    return next((found for magic, found in _MAGIC.items() if head.startswith(magic)), None)


def _nested_archive(name: str) -> UnreadableSource:
    detail = "what is compressed in it is compressed itself: compress it once"
    return UnreadableSource(name, Reason.DAMAGED_COMPRESSION, detail)


assert set(_FORMATS.values()) == set(get_args(Format))


def chunks(
    path: Path,
    name: str,
    compression: str | None,
    chunk_bytes: int,
    budget: Budget,
    position: Position | None = None,
) -> Iterator[bytes]:
    """Yield a file's contents, decompressed; every checksum is verified up to the last byte.

    Args:
        path: The file.
        name: Its name, for messages.
        compression: `gzip`, `zstd`, `zip` or None.
        chunk_bytes: The most that is yielded at once.
        budget: The most that it may hold in all.
        position: Is moved as far as the file is read.

    Raises:
        UnreadableSource: It is damaged, cut short, followed by junk, or larger than allowed.
        Unavailable: It cannot be opened or read.
    """
    total = 0
    contents = _read_zip if compression == "zip" else _read_stream
    for chunk, read in contents(path, name, compression, chunk_bytes):
        total += len(chunk)
        if position is not None:
            position.bytes = read
        budget.check_bytes(total, name)
        yield chunk
    if compression and not total and path.stat().st_size == 0:
        raise UnreadableSource(
            name, Reason.DAMAGED_COMPRESSION, f"an empty file is no {compression}: deliver it whole"
        )


# A piece of what a file holds, and how many of its own bytes were read for it.
_Pieces: TypeAlias = Iterator[tuple[bytes, int]]


def _read_zip(path: Path, name: str, _: str | None, chunk_bytes: int) -> _Pieces:
    with only_member(path, name) as (member, stream):
        packed = member.compress_size / max(member.file_size, 1)
        while chunk := stream.read(chunk_bytes):
            yield chunk, int(stream.tell() * packed)


def _read_stream(path: Path, name: str, compression: str | None, chunk_bytes: int) -> _Pieces:
    with ExitStack() as opened:
        try:
            file = opened.enter_context(pa.OSFile(str(path)))
            stream = opened.enter_context(pa.input_stream(file, compression=compression))
        except OSError as error:
            raise Unavailable("file", f"{name}: {error}", CHECK_PATH) from error
        while True:
            try:
                chunk = stream.read(chunk_bytes)
            except OSError as error:
                if compression is None:
                    raise Unavailable("file", f"{name}: {error}", CHECK_PATH) from error
                raise UnreadableSource(
                    name, Reason.DAMAGED_COMPRESSION, f"{error}; deliver it again, whole"
                ) from None
            if not chunk:
                return
            yield chunk, file.tell()


def batches(
    path: Path, name: str, columns: list[str], position: Position, budget: Budget
) -> Iterator[pa.RecordBatch]:
    """Yield some columns of a Parquet file's rows; members of structs are named `outer.inner`.

    Args:
        path: The file, unpacked.
        name: Its name, for messages.
        columns: The columns.
        position: Is moved as far as the file is read: by its rows, for columns lie side by side.
        budget: How much of it may be in memory.

    Raises:
        UnreadableSource: It is no whole Parquet file, or too large for memory.
    """
    try:
        # A row group may be larger than memory: its columns are read page by page.
        with path.open("rb") as raw, pq.ParquetFile(path, buffer_size=_BUFFER_BYTES) as file:
            budget.check_rows(file.metadata.num_rows, name)
            check = partial(budget.check_bytes, name=name)
            sizes = PageSizes(raw, file, columns, name, check)
            rows = total = 0
            for groups, at_once in _parts(file, sizes, budget.batch_bytes):
                for batch in file.iter_batches(at_once, row_groups=groups, columns=columns):
                    rows += len(batch)
                    total += sum(map(_unpacked_bytes, batch.columns))
                    budget.check_bytes(total, name)
                    position.bytes = budget.size_bytes * rows // file.metadata.num_rows
                    yield batch
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(name, error) from None


def _unpacked_bytes(values: pa.Array) -> int:
    """How many bytes values become once each row has its own, not a number in a dictionary."""
    if pa.types.is_struct(values.type):
        return sum(map(_unpacked_bytes, values.flatten()))
    if not pa.types.is_dictionary(values.type):
        return int(values.nbytes)
    try:
        lengths = pc.binary_length(values.dictionary)
    except pa.ArrowNotImplementedError:
        return len(values) * int(values.dictionary.nbytes // max(len(values.dictionary), 1))
    return pc.sum(lengths.take(values.indices)).as_py() or 0


def _parts(
    file: pq.ParquetFile, sizes: PageSizes, batch_bytes: int
) -> Iterator[tuple[list[int], int]]:
    """Row groups that are read together, for each may be small, and how many rows at once."""
    groups: list[int] = []
    rows, at_once = 0, BATCH_ROWS
    for group in range(file.num_row_groups):
        possible = min(BATCH_ROWS, sizes.rows_at_once(group, batch_bytes))
        if groups and (rows >= BATCH_ROWS or possible != at_once):
            yield groups, at_once
            groups, rows = [], 0
        groups.append(group)
        rows, at_once = rows + file.metadata.row_group(group).num_rows, possible
    if groups:
        yield groups, at_once


def parquet_types(path: Path, name: str) -> dict[str, pa.DataType]:
    """The columns of a Parquet file and their types; members of structs as `outer.inner`.

    Raises:
        UnreadableSource: It is no Parquet file, there are too many columns, or two have one name.
    """
    try:
        check_footer(path, name)
        schema = pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise _no_parquet(name, error) from None
    leaves = list(_leaves(schema, ""))
    check_names([column for column, _ in leaves], name)
    return dict(leaves)


def _leaves(fields: pa.Schema | pa.StructType, prefix: str) -> Iterator[tuple[str, pa.DataType]]:
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", field.type


def _no_parquet(name: str, error: Exception) -> UnreadableSource:
    detail = str(error).partition("\n")[0]
    return UnreadableSource(
        name, Reason.DAMAGED_FILE, f"no Parquet file: {detail}; write the file again"
    )
