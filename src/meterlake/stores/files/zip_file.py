"""Zip files of exactly one file: opened as a stream, checked to its end, in bounded memory."""

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Final

from meterlake.model.errors import CHECK_PATH, Unavailable, UnreadableSource
from meterlake.model.measurements.columns import join_names
from meterlake.model.measurements.rejection import Reason

_DIRECTORY_BYTES_MAX: Final = 1 << 20
_ENCRYPTED: Final = 0x1
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
# What Finder puts beside every file that it packs.
_BESIDE: Final = "__MACOSX"
_BESIDE_NAMES: Final = "._"
# The record that a zip file ends with, but for a comment.
_END: Final = b"PK\x05\x06"
_END_BYTES: Final = 22
# Of the kinds of files that Unix knows, none means that it was packed elsewhere.
_PLAIN: Final = frozenset({0, stat.S_IFREG})
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
def only_member(path: Path, name: str) -> Iterator[tuple[zipfile.ZipInfo, IO[bytes]]]:
    """The one file in a zip file, as its directory tells it, and its contents as a stream.

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
                _check_whole(archive, file, name)
                member = _only(archive, name)
                with archive.open(member) as stream:
                    yield member, stream
    except OSError as error:
        raise Unavailable("file", f"{name}: {error}", CHECK_PATH) from error
    except _DAMAGED as error:
        raise UnreadableSource(
            name, Reason.DAMAGED_COMPRESSION, f"zip: {error}; deliver it again, whole"
        ) from None


def _check_whole(archive: zipfile.ZipFile, file: IO[bytes], name: str) -> None:
    """Refuse a zip file with something in front of it or behind it, such as another one.

    A zip file is found from its end: rows in front would be passed over without a word.
    """
    file.seek(-_END_BYTES - len(archive.comment), os.SEEK_END)
    ends = file.read(len(_END)) == _END
    first = min((each.header_offset for each in archive.infolist()), default=0)
    if first or not ends:
        detail = (
            "something stands in front of the zip file or behind it: send each as a file of its own"
        )
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, detail)


def _only(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    files = [each for each in archive.infolist() if not _is_beside(each)]
    if len(files) != 1:
        shown = join_names([repr(each.filename) for each in files])
        detail = f"the zip file holds {len(files)} files, not one{': ' if shown else ''}{shown}; zip each alone"
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, detail)
    [member] = files
    if obstacle := _obstacle(member):
        raise UnreadableSource(name, Reason.DAMAGED_COMPRESSION, obstacle)
    return member


def _is_beside(member: zipfile.ZipInfo) -> bool:
    """Whether it is an empty folder, or what Finder notes of a file."""
    path = PurePosixPath(member.filename)
    if member.is_dir():
        return not member.file_size
    return path.parts[:1] == (_BESIDE,) and path.name.startswith(_BESIDE_NAMES)


def _obstacle(member: zipfile.ZipInfo) -> str | None:
    """Why the one file of a zip file is not read."""
    shown = join_names([repr(member.filename)])
    if member.flag_bits & _ENCRYPTED:
        return "the zip file is encrypted; send it without a password"
    if _leads_out(member.filename):
        return f"the path {shown} in the zip file leads out of it; zip the file by its name alone"
    if stat.S_IFMT(member.external_attr >> 16) not in _PLAIN:
        return f"{shown} in the zip file is a link or the like, no file; zip the file itself"
    if member.compress_type not in _METHODS:
        return "the zip file is packed in another way than deflate; zip it with deflate"
    return None


def _leads_out(name: str) -> bool:
    """Whether a path does so on any system; it is never written to, but nobody means such a one."""
    path = PureWindowsPath(name)
    return bool(path.anchor) or ".." in path.parts
