"""Objects in a folder of this machine, or of a network file system."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from meterlake.model.errors import Busy, Invalid, NotFound, ObjectExists, Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.stores.objects.base import ObjectInfo, ObjectStore, Opened, checked_key, is_temporary

# How long a put waits for another one of the same key.
LOCK_TIMEOUT_S: Final = 60
_COPIED: Final = 1 << 27
_REFUSED: Final = {
    errno.EACCES: "not permitted",
    errno.EPERM: "not permitted",
    errno.EROFS: "read-only",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "a part of the path is a file",
    errno.EISDIR: "it is a folder",
    errno.ENAMETOOLONG: "a part of the name is too long",
}


class LocalObjects(ObjectStore):
    """One file per object.

    A put writes `.<hash of the name>.part` beside its target, fsyncs it, gives it its name in one
    step (rename, or link where nothing may be replaced) and fsyncs the folder. The temporary file
    is locked: what a killed put left is taken over by the next put of the same key, never by
    a concurrent one, or removed by `abort_uploads`.
    """

    def __init__(self, root: Path, within: Path | None = None) -> None:
        """Objects below `root`.

        Args:
            root: The folder; it is made when it is needed.
            within: A folder that has to be there, and that nothing may be put outside of.
        """
        self._root = root.absolute()
        self._within = within

    def url(self, key: str) -> str:
        """The path of the file."""
        return str(self._path(key))

    def head(self, key: str) -> ObjectInfo:
        """See `ObjectStore.head`; folders keep no checksums."""
        with _translate_errors(self.url(key)):
            return _info(key, self._file(key).stat())

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        with _translate_errors(self.url(key)):
            return self._file(key).open("rb")

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        with _translate_errors(str(self._root)):
            yield from _walk(self._root, "", prefix)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        path = self._path(key)
        with _translate_errors(str(path)), contextlib.suppress(FileNotFoundError):
            path.unlink()
            _sync_folder(path.parent)

    def abort_uploads(self, keys: Collection[str]) -> int:
        """See `ObjectStore.abort_uploads`; what another process is putting just now stays."""
        return sum(self._removed_half(self._path(key)) for key in keys)

    def _removed_half(self, path: Path) -> bool:
        temporary = _temporary_name(path)
        with _translate_errors(str(path)):
            try:
                file = temporary.open("r+b")
            except FileNotFoundError:
                return False
            with file:
                self._expect_within(path.parent)
                removed = _lock(file) and _has_name(file, temporary)
                if removed:
                    temporary.unlink()
                    _sync_folder(path.parent)
        return removed

    def path(self, key: str) -> Path | None:
        """See `ObjectStore.path`."""
        return self._path(key)

    @contextlib.contextmanager
    def writing(self, key: str) -> Iterator["Writing"]:
        """Write an object piece by piece; what is not finished leaves nothing.

        Raises:
            Busy: Somebody else writes it at the moment.
            Invalid: The folder may not be written.
            Unavailable: The disk failed.
        """
        path = self._path(key)
        with _translate_errors(str(path)):
            _make_folders(path.parent)
            with _temporary_beside(path, 0) as (temporary, file):
                writing = Writing(temporary, file, path)
                yield writing
                if not writing.finished:
                    temporary.unlink()

    def copy(self, info: ObjectInfo, key: str) -> None:
        """See `ObjectStore.copy`."""
        with self._open_version(info).stream as stream:
            self._put_stream(key, stream, create_only=False)

    def tag(self, info: ObjectInfo, name: str, value: str) -> str:
        """See `ObjectStore.tag`."""
        del name, value
        raise Invalid("tags", self.url(info.key), "files have no tags; leave them out")

    def delete_version(self, info: ObjectInfo) -> None:
        """See `ObjectStore.delete_version`."""
        self._open_version(info).stream.close()
        self.delete(info.key)

    def _open_version(self, info: ObjectInfo) -> Opened:
        stream = self.open(info.key)
        if _info(info.key, os.fstat(stream.fileno())).version == info.version:
            return Opened(stream)
        stream.close()
        raise self._replaced_error(info)

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)

    def _file(self, key: str) -> Path:
        path = self._path(key)
        if path.is_dir():
            raise NotFound("object", str(path))
        return path

    def _expect_within(self, folder: Path) -> None:
        """Check that nothing is put beside a file system that is not mounted, or through a link."""
        if self._within is None:
            return
        if not self._within.is_dir():
            raise Unavailable(
                str(folder), f"there is no folder {self._within}", "mount it, or make it"
            )
        if not folder.resolve().is_relative_to(self._within.resolve()):
            raise Invalid(
                "object",
                str(folder),
                f"it must be below {self._within}, and a link leads out of there",
            )

    def _is_there(self, info: ObjectInfo) -> bool:
        # Who put it may have been killed before the folders knew it for good.
        there = super()._is_there(info)
        if there:
            folder = self._path(info.key).parent
            with _translate_errors(str(folder)):
                while folder.is_relative_to(self._root):
                    _sync_folder(folder)
                    folder = folder.parent
        return there

    def _put_object(self, info: ObjectInfo, content: BinaryIO, *, create_only: bool) -> None:
        path = self._path(info.key)
        with _translate_errors(str(path)):
            self._expect_within(path.parent)
            _make_folders(path.parent)
            with _temporary_beside(path, LOCK_TIMEOUT_S) as (temporary, file):
                _copy(content, file)
                file.flush()
                os.fsync(file.fileno())
                if not create_only:
                    temporary.replace(path)
                elif not _link(temporary, path):
                    self._expect_same(info)
                _sync_folder(path.parent)


class Writing:
    """An object that is being written; its bytes are hashed on the way."""

    def __init__(self, temporary: Path, file: BinaryIO, path: Path) -> None:
        self._temporary = temporary
        self._file = file
        self._path = path
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        self.finished = False

    def write(self, data: bytes) -> None:
        """Add bytes."""
        with _translate_errors(str(self._path)):
            self._file.write(data)
        self._digest.update(data)
        self.size_bytes += len(data)

    def finish(self) -> str:
        """Give the object its name, durably; its SHA-256.

        Raises:
            ObjectExists: There is an object of that name already.
            Unavailable: The disk failed.
        """
        with _translate_errors(str(self._path)):
            self._file.flush()
            os.fsync(self._file.fileno())
            self.finished = True
            mark_step("objects.written")
            if not _link(self._temporary, self._path):
                raise ObjectExists(str(self._path))
            _sync_folder(self._path.parent)
        return self._digest.hexdigest()


def _info(key: str, stat: os.stat_result) -> ObjectInfo:
    version = f"{stat.st_ino}-{stat.st_mtime_ns}-{stat.st_size}"
    return ObjectInfo(key, stat.st_size, version=version)


def _link(temporary: Path, path: Path) -> bool:
    """Give the file its name unless the name is taken; the temporary name goes either way."""
    try:
        os.link(temporary, path)
        mark_step("objects.put_linked")
    except FileExistsError:
        return False
    finally:
        temporary.unlink()
    return True


@contextlib.contextmanager
def _temporary_beside(path: Path, patience_s: float) -> Iterator[tuple[Path, BinaryIO]]:
    """An empty locked file in the same folder, which no other put of this name can have."""
    temporary = _temporary_name(path)
    deadline = time.monotonic() + patience_s
    while True:
        with open(temporary, "r+b", opener=_open_keeping) as file:
            locked = _lock(file)
            if locked and _is_owned(file, temporary):
                file.truncate(0)
                try:
                    yield temporary, file
                except BaseException:
                    if _is_owned(file, temporary):  # else the name may be another put's by now
                        temporary.unlink()
                    raise
                return
        if locked:
            continue  # Nobody writes: it was a file that has its final name by now.
        if time.monotonic() > deadline:
            raise Busy(str(path), "another process is writing it; try again later")
        time.sleep(0.01)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{hashlib.sha256(path.name.encode()).hexdigest()[:24]}.part")


def _open_keeping(path: str, flags: int) -> int:
    """Open a file with what is in it, or make it."""
    return os.open(path, flags | os.O_CREAT, 0o666)


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    """Copy all that comes; between files the system does it."""
    start = offset = source.tell()
    try:
        while done := os.copy_file_range(source.fileno(), target.fileno(), _COPIED, offset):
            offset += done
    except OSError:
        if offset > start:
            raise
        # One of them is no file, or their file systems cannot do it together.
        shutil.copyfileobj(source, target, 1 << 20)


def _lock(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_owned(file: BinaryIO, temporary: Path) -> bool:
    """Whether the locked file still is the temporary one, and only that.

    Before we had the lock its former owner may have given it its final name; a former owner who
    died between link and unlink left two names of a finished object, which must not be written.
    """
    if not _has_name(file, temporary):
        return False
    if os.fstat(file.fileno()).st_nlink > 1:
        temporary.unlink()
        return False
    return True


def _has_name(file: BinaryIO, temporary: Path) -> bool:
    """Whether a file still has its temporary name."""
    try:
        return os.fstat(file.fileno()).st_ino == temporary.stat().st_ino
    except FileNotFoundError:
        return False


def _make_folders(folder: Path) -> None:
    """Create a folder and its parents so that they survive a power cut."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _walk(folder: Path, base: str, prefix: str) -> Iterator[ObjectInfo]:
    """Objects below a folder in the order of their keys, as an object store would list them.

    An object is a plain file: links lead nowhere, and opening a pipe would wait for ever.
    """
    try:
        entries = [
            (entry.name + "/" * entry.is_dir(follow_symlinks=False), entry)
            for entry in os.scandir(folder)
        ]
    except FileNotFoundError:
        return
    for name, entry in sorted(entries, key=lambda item: item[0]):
        key = base + name
        if name.endswith("/"):
            if key.startswith(prefix) or prefix.startswith(key):
                yield from _walk(Path(entry.path), key, prefix)
        elif (
            key.startswith(prefix)
            and not is_temporary(name)
            and entry.is_file(follow_symlinks=False)
        ):
            with contextlib.suppress(FileNotFoundError):  # deleted while we look
                yield _info(key, entry.stat())


@contextlib.contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound("object", what) from error
    except OSError as error:
        rule = _REFUSED.get(error.errno or 0)
        if rule:
            raise Invalid("object", what, rule) from error
        raise Unavailable(what, error.strerror or str(error)) from error
