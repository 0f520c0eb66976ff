"""Folders that others put files into: what is a file of its own there, and what is not."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from meterlake.stores.files.durable import disk


def is_own_file(path: Path) -> bool:
    """Whether a path is a plain file; a link may lead to what whoever put it there must not read."""
    return _is(path, stat.S_ISREG)


def file_name(path: Path) -> str:
    """A file's name as text; bytes in it that are no UTF-8 become question marks."""
    return path.name.encode("utf-8", "replace").decode()


def strangers(folder: Path) -> Iterator[str]:
    """What lies below a folder and is neither a folder nor a plain file: links, pipes and the like.

    Returns:
        Their paths in the folder; bytes that are no UTF-8 are question marks.

    Raises:
        Unavailable: The disk failed.
    """
    with disk():
        for where, folders, files in os.walk(folder):
            for path in (Path(where, name) for name in sorted([*folders, *files])):
                if os.path.lexists(path) and not (is_own_file(path) or _is(path, stat.S_ISDIR)):
                    yield str(path.relative_to(folder)).encode("utf-8", "replace").decode()


def _is(path: Path, kind: Callable[[int], bool]) -> bool:
    try:
        return kind(path.lstat().st_mode)
    except FileNotFoundError:
        return False
