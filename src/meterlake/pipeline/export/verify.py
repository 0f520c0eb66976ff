"""The verb `verify`: whether what an export wrote is there as its manifest says.

Nothing but the manifest and the files is looked at: no home, no job, no lake.
"""

import csv
import gzip
import hashlib
import io
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import pyarrow.parquet as pq

from meterlake.model.errors import Invalid, MeterlakeError, NotFound, Unavailable
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.values.plurals import counted
from meterlake.model.values.problems import read
from meterlake.model.work.export_request import Format
from meterlake.pipeline.export.files import schema_of
from meterlake.settings import Settings
from meterlake.stages.export.column_kinds import ExportColumn, flat
from meterlake.stages.export.manifest import ExactSums, ReadManifest, Sum, WrittenFile, summable
from meterlake.stores.objects import open_objects

MANIFEST: Final = "manifest"
_ORGANIZATION: Final = "orgId="
_BLOCK: Final = 1 << 20
_ROWS: Final = 10_000
# A cell of JSON may be long; this is the limit of files that come in, too.
_CELL_MAX: Final = 1 << 25
# Where it stands in the parts of a URL.
_BUCKET: Final = 2


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


@dataclass(frozen=True, slots=True)
class ManifestProblem:
    """Something that is not as the manifest says.

    Attributes:
        file: The key of the file, or `manifest`.
        what: What is wrong with it.
    """

    file: str
    what: str

    def to_wire(self) -> dict[str, Any]:
        """For JSON and tables."""
        return {"file": self.file, "problem": self.what}


def verify(settings: Settings, url: str | Path) -> list[ManifestProblem]:
    """Compare the files of an export with its manifest: all that is wrong, nothing if all is well.

    Every file is read whole, and its size, checksum, columns, rows and sums are computed again.

    Args:
        settings: The endpoints of object stores.
        url: The manifest: a path, or an `s3://` or `gs://` URL. Its files are expected where the
            export put them, or beside a manifest that was taken elsewhere with them.

    Raises:
        NotFound: There is no such manifest.
        Invalid: It is none, or its store refuses us.
        Unavailable: A disk or a network failed.
    """
    # The store that the keys of a manifest begin in, and the key of the manifest itself.
    location = str(url)
    segments = (location if "://" in location else Path(location).absolute().as_posix()).split("/")
    inside = [n for n, part in enumerate(segments) if part.startswith(_ORGANIZATION)]
    start = inside[-1] if inside else len(segments) - 1
    if "://" in location and start <= _BUCKET:
        raise Invalid(
            "manifest", location, "it must be the URL of one: a scheme, a bucket and a key"
        )
    objects = open_objects("/".join(segments[:start]) or "/", settings)
    key = "/".join(segments[start:])
    manifest = read_manifest(objects.get(key), str(url))
    if "/" in key:
        return compare_files(manifest, objects.open)
    # The files were taken elsewhere with it.
    return compare_files(manifest, lambda file: objects.open(file.rpartition("/")[2]))


def compare_files(manifest: ReadManifest, open: Callable[[str], BinaryIO]) -> list[ManifestProblem]:
    """Compare files with their manifest: all that is wrong, nothing if all is well.

    Args:
        manifest: What the files should be.
        open: Opens the file of a key.

    Raises:
        Unavailable: A disk or a network failed.
    """
    files = [WrittenFile.of(entry) for entry in manifest.files]
    problems = []
    for name in ("rows", "bytes"):
        told, found = getattr(manifest, name), sum(getattr(file, name) for file in manifest.files)
        if found != told:
            what = f"its files have {found} {name} together, not {told}"
            problems.append(ManifestProblem(MANIFEST, what))
    if len({file.key for file in manifest.files}) < len(manifest.files):
        problems.append(ManifestProblem(MANIFEST, "a file is in it twice"))
    for file in files:
        problems.extend(
            ManifestProblem(file.key, what) for what in _wrong(open, file, manifest.format)
        )
    return problems


def read_manifest(content: bytes, url: str) -> ReadManifest:
    """A manifest from its bytes; the URL is for refusals.

    Raises:
        Invalid: It is none.
    """
    try:
        document = wire.loads(content)
    except Invalid as error:
        raise Invalid(f"manifest {url}", *error.args[1:]) from None
    if not isinstance(document, dict):
        raise Invalid(f"manifest {url}", document, "it must be a JSON object")
    try:
        return read(ReadManifest, document)
    except Invalid as error:
        field, value, rule = error.args
        raise type(error)(f"manifest {url}: {field}", value, rule) from None


def _wrong(open: Callable[[str], BinaryIO], file: WrittenFile, format: Format) -> Iterator[str]:
    try:
        with open(file.key) as stream:
            yield from _compare_file(Hashed(stream), file, format)
    except Unavailable:
        raise
    except NotFound:
        yield "it is not there"
    except MeterlakeError as error:
        yield str(error)


def _compare_file(stream: Hashed, file: WrittenFile, format: Format) -> Iterator[str]:
    try:
        rows, sums = count_rows(io.BufferedReader(stream, _BLOCK), format, file)
    except Unavailable:
        raise
    except Exception as error:  # noqa: BLE001 - decoders have errors of many kinds
        yield f"its content cannot be read: {error}"
    else:
        yield from _different(rows, sums, file)
    stream.to_end()
    if stream.size_bytes != file.size_bytes:
        yield f"it has {counted(stream.size_bytes, 'byte')}, not {file.size_bytes:,}"
    elif stream.sha256 != file.sha256:
        yield f"its SHA-256 is {stream.sha256}, not {file.sha256}"


def _different(rows: int, sums: Mapping[str, Sum], file: WrittenFile) -> Iterator[str]:
    if rows != file.rows:
        yield f"it has {counted(rows, 'row')}, not {file.rows:,}"
    for name in sorted({*sums, *file.sums}):
        found, told = sums.get(name), file.sums.get(name)
        if found != told:
            yield f"the sum of {name} is {_display(found)}, not {_display(told)}"


def _display(total: Sum) -> str:
    if isinstance(total, Mapping):
        amounts = (f"{plain(total[each])} {each}".strip() for each in sorted(total))
        return ", ".join(amounts) or "nothing"
    return "nothing" if total is None else plain(total)


def count_rows(
    stream: BinaryIO, format: Format, file: WrittenFile
) -> tuple[int, Mapping[str, Sum]]:
    """The number of rows of a file, and the sums of its numbers, from its content.

    Args:
        stream: The file, from its start; all of its content is read.
        format: How it is written.
        file: What the manifest says of it; of that, the columns are looked at.

    Raises:
        Invalid: It has other columns.
        Exception: It is no such file; decoders have errors of many kinds.
    """
    sums, rows = ExactSums(file.columns), 0
    for row in _READ[format](stream, file, sums.needed):
        rows += 1
        sums.add(row)
    return rows, sums.totals


def _csv(stream: BinaryIO, file: WrittenFile, needed: Sequence[ExportColumn]) -> Rows:
    text = io.TextIOWrapper(gzip.GzipFile(fileobj=stream), encoding="utf-8", newline="")
    csv.field_size_limit(_CELL_MAX)  # It holds for the whole process.
    records = csv.reader(text, strict=True)
    names = next(records, [])
    _expect(names, file.columns)
    places = [(column, names.index(column.name)) for column in needed]
    for number, record in enumerate(records, 1):
        if len(record) != len(names):
            raise Invalid(
                f"row {number}",
                record,
                f"it must have {counted(len(names), 'cell')}, not {len(record)}",
            )
        yield {column.name: _number(record[index], column, number) for column, index in places}


def _jsonl(stream: BinaryIO, file: WrittenFile, needed: Sequence[ExportColumn]) -> Rows:
    known = {column.name for column in file.columns}
    for number, line in enumerate(gzip.GzipFile(fileobj=stream), 1):
        try:
            document = wire.loads(line)
        except Invalid as error:
            _, value, rule = error.args
            raise Invalid(f"row {number}", value, rule) from None
        if not isinstance(document, dict):
            raise Invalid(f"row {number}", document, "it must be a JSON object")
        if file.typed:  # Those that older manifests name may not be all.
            _expect_members(document, known)
        # Answers of the Data Explorer have dots in the names of their members.
        row = flat(document, tuple(needed)) | {
            each.name: document[each.name] for each in needed if each.name in document
        }
        yield {each.name: _number(row[each.name], each, number) for each in needed}


def _parquet(stream: BinaryIO, file: WrittenFile, needed: Sequence[ExportColumn]) -> Rows:
    with _seekable(stream) as whole, pq.ParquetFile(whole) as table:
        _expect(table.schema_arrow.names, file.columns)
        if file.typed:
            for found, expected in zip(table.schema_arrow, schema_of(file.columns), strict=True):
                if found.type != expected.type:
                    raise Invalid(
                        "columns",
                        f"{found.name} {found.type}",
                        f"it must be of type {expected.type}",
                    )
        rows = 0
        for batch in table.iter_batches(_ROWS, columns=[each.name for each in needed]):
            values = [batch.column(each.name).to_pylist() for each in needed]
            for row in zip(*values, strict=True) if values else [()] * batch.num_rows:
                rows += 1
                yield {c.name: _number(v, c, rows) for c, v in zip(needed, row, strict=True)}


@contextmanager
def _seekable(stream: BinaryIO) -> Iterator[BinaryIO]:
    """All of a stream in a file without a name; Parquet is read from its end."""
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(stream, file, _BLOCK)
        file.seek(0)
        yield file


def _expect(names: Sequence[str], columns: Sequence[ExportColumn]) -> None:
    expected = [column.name for column in columns]
    if list(names) != expected:
        raise Invalid("columns", ", ".join(names), f"they must be {', '.join(expected)}")


def _expect_members(document: Mapping[str, Any], known: Collection[str], within: str = "") -> None:
    """Every value of a row belongs to a column: it is its value, or part of it."""
    for member, value in document.items():
        name = f"{within}{member}"
        if name in known or value is None:
            continue
        if not isinstance(value, Mapping):
            raise Invalid("columns", name, "it must be members that are columns")
        _expect_members(value, known, f"{name}.")


def _number(value: Any, column: ExportColumn, row: int) -> Any:
    """A value as it is summed: a finite number; of other columns, the value itself."""
    if value is None or value == "":
        return None
    if not column.summed:
        return value
    number = summable(value)
    if number is None:
        raise Invalid(f"row {row}: {column.name}", value, "it must be a number")
    return number


_READ: Final = {Format.CSV: _csv, Format.JSONL: _jsonl, Format.PARQUET: _parquet}
