"""The verb `verify`: whether what an export wrote is there as its manifest says.

Nothing but the manifest and the files is looked at: no home, no job, no lake.
"""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meterlake.model.errors import Invalid, MeterlakeError, NotFound, Unavailable
from meterlake.model.values import wire
from meterlake.model.values.counted import counted
from meterlake.model.values.money import plain
from meterlake.model.values.problems import read
from meterlake.model.work.export_request import Format
from meterlake.pipeline.export.content import Hashed, count_rows
from meterlake.settings import Settings
from meterlake.stages.export.manifest import ReadManifest, Sum, WrittenFile
from meterlake.stores.objects import ObjectStore, open_objects

MANIFEST: Final = "manifest"
_ORGANIZATION: Final = "orgId="
_BLOCK: Final = 1 << 20
# Where it stands in the parts of a URL.
_BUCKET: Final = 2


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
    manifest = _read_manifest(objects.get(key), str(url))
    files = [WrittenFile.of(entry) for entry in manifest.files]
    problems = []
    for name in ("rows", "bytes"):
        told, found = getattr(manifest, name), sum(getattr(file, name) for file in manifest.files)
        if found != told:
            what = f"its files have {found} {name} together, not {told}"
            problems.append(ManifestProblem(MANIFEST, what))
    if len({file.key for file in manifest.files}) < len(manifest.files):
        problems.append(ManifestProblem(MANIFEST, "a file is in it twice"))
    is_beside = "/" not in key
    for file in files:
        stored = file.key.rpartition("/")[2] if is_beside else file.key
        problems.extend(
            ManifestProblem(file.key, what)
            for what in _wrong(objects, stored, file, manifest.format)
        )
    return problems


def _read_manifest(content: bytes, url: str) -> ReadManifest:
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


def _wrong(objects: ObjectStore, key: str, file: WrittenFile, format: Format) -> Iterator[str]:
    try:
        with objects.open(key) as stream:
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
