"""Zip files of exactly one file: opened as a stream, checked to its end, in bounded memory."""

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from meterlake.model.errors import Unavailable, UnreadableSource
from meterlake.model.measurement import Reason

_DIRECTORY_BYTES_MAX: Final = 1 << 20
_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
# What Finder puts beside every file that it packs.
_BESIDE: Final = "__MACOSX/"
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
)


class _Bounded:
    """A file of which nobody reads much at once: a directory of many files is not for memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.tell = file.tell
        self.seekable = file.seekable
        self.opening = True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place, which a damaged directory may seek before the file's beginning."""
        if whence == 0 and offset < 0:
            raise zipfile.BadZipFile("its directory points nowhere")
        return self._file.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        """Read, but no large directory."""
        if self.opening and size > _DIRECTORY_BYTES_MAX:
            raise zipfile.BadZipFile("its directory is for many files")
        return self._file.read(size)


@contextmanager
def only_member(path: Path, name: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The name of the one file in a zip file, and its contents as a stream.

    Args:
        path: The zip file.
        name: Its name, for messages.

    Raises:
        UnreadableSource: It is no zip file, or does not hold exactly one file that can be read:
            unencrypted, stored or deflated; or the body found that file damaged.
        Unavailable: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            bounded = _Bounded(file)
            with zipfile.ZipFile(bounded) as archive:
                bounded.opening = False
                member = _only(archive, name)
                with archive.open(member) as stream:
                    yield member.filename, stream
    except OSError as error:
        raise Unavailable("file", f"{name}: {error}") from error
    except _DAMAGED as error:
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, f"zip: {error}") from None


def _only(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    files = [
        each
        for each in archive.infolist()
        if not each.is_dir() and not each.filename.startswith(_BESIDE)
    ]
    if len(files) != 1:
        detail = f"the zip file holds {len(files)} files, not one"
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, detail)
    member = files[0]
    if member.flag_bits & _ENCRYPTED:
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, "the zip file is encrypted")
    if member.compress_type not in _METHODS:
        detail = "the zip file is packed in another way than deflate"
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, detail)
    return member
