"""Files that survive a power cut: contents and folder entries are synced, names appear whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from meterlake.model.errors import Unavailable


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
        raise Unavailable("disk", f"{error.strerror or error}{where}") from error


@disk()
def sync(path: Path) -> None:
    """Force a file's contents, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@disk()
def make_folder(path: Path) -> None:
    """Create a folder and its parents, durably."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        with suppress(FileExistsError):
            folder.mkdir()
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
def written(target: Path, *, needed: bool = True) -> Iterator[Path]:
    """Give a temporary path to write to; it becomes `target` at the end, or vanishes on an error.

    Args:
        target: The file.
        needed: Whether it must be there after a power cut. If it is there, it is whole anyway.
    """
    make_folder(target.parent)
    with disk():
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".part", dir=target.parent
        )
        os.close(handle)
    temporary = Path(name)
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
