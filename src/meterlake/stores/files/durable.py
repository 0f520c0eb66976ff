"""Files that survive a power cut: contents and folder entries are synced, names appear whole."""

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from meterlake.model.errors import Unavailable

# What to do about a disk that is full.
MAKE_ROOM: Final = "make room there, and try again"
# With less than this SQLite cannot open a database in WAL mode: its index takes 32 KiB at once.
_LITTLE_BYTES: Final = 64 << 10

# Of folders that nobody but their owner ever reads, whatever a home's group may.
PRIVATE: Final = 0o700


@contextmanager
def disk() -> Iterator[None]:
    """Turn the system's errors about files into ours.

    Raises:
        Unavailable: The disk is full, or may not be written, or failed.
    """
    try:
        yield
    except TimeoutError:
        raise  # Of a lock, not of a disk.
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise Unavailable(
            "disk", f"{error.strerror or error}{where}", "make room or mend it, and try again"
        ) from error


def out_of_space(folder: Path) -> str | None:
    """Say that the disk of a folder is full; None if it is not.

    For drivers that call it an I/O error: SQLite does when it cannot make the files beside its own.
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return None
    return f"the disk is full: {folder}" if free < _LITTLE_BYTES else None


@disk()
def sync(path: Path) -> None:
    """Force a file's contents, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_private(*, group_read: bool = False) -> None:
    """Keep others from what this process, and its children, create from now on.

    Args:
        group_read: Whether the group of a file may read it.
    """
    os.umask(0o027 if group_read else 0o077)


def close_to_others(folder: Path, *, group_read: bool) -> None:
    """Take from the folder of a home what others may do there, if it was made with more."""
    with suppress(OSError):  # It may belong to somebody else, who decides.
        mode = stat.S_IMODE(folder.stat().st_mode)
        allowed = 0o750 if group_read else PRIVATE
        if mode & ~allowed:
            folder.chmod(mode & allowed)


@disk()
def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents, durably.

    Args:
        path: The folder.
        mode: What may be permitted at most of each folder that is missing.
    """
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir(mode)
        sync(folder.parent)


def move(source: Path, target: Path, *, scratch: bool = False) -> None:
    """Rename a synced file or a folder, durably; both lie on one file system.

    Args:
        source: What there is.
        target: Its name from now on.
        scratch: The source's folder is thrown away after a crash, whatever it still lists.
    """
    make_folder(target.parent)
    with disk():
        source.rename(target)
    sync(target.parent)
    if not scratch and source.parent != target.parent and source.parent.exists():
        sync(source.parent)


@contextmanager
def write_durably(target: Path, *, needed: bool = True) -> Iterator[Path]:
    """Give a temporary path to write to; it becomes `target` at the end, or vanishes on an error.

    Args:
        target: The file.
        needed: Whether it must be there after a power cut. If it is there, it is whole anyway.
    """
    make_folder(target.parent)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with disk():
        # Unlike `mkstemp` this leaves it to the process who may read it; see `make_private`.
        os.close(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
    try:
        with disk():
            yield temporary
            sync(temporary)
            temporary.replace(target)
        if needed:
            sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create_once(file: Path, content: bytes) -> None:
    """Create a file that only its owner reads, durably, unless it is there already."""
    if file.exists():
        return
    part = file.with_name(f".{file.name}.{secrets.token_hex(8)}.part")
    with disk():
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)
                opened.flush()
                os.fsync(opened.fileno())
            # A link, unlike a rename, never replaces what another process made meanwhile.
            with suppress(FileExistsError):
                os.link(part, file)
        finally:
            part.unlink(missing_ok=True)
    sync(file.parent)
