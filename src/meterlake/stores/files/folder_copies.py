"""Copies of small folders in an object store, so that another machine can go on from them.

The files go up first, below a token that no copy had before; then the object that lists them. So a
copy is whole or not there, and one that replaces another is never mixed with it.
"""

import secrets
import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from meterlake.model.errors import NotFound, Unavailable
from meterlake.model.values import wire
from meterlake.stores.files.durable import disk, make_folder, sync
from meterlake.stores.objects.base import ObjectStore

# Each waits for the network most of the time.
_AT_ONCE: Final = 4


class FolderCopy(NamedTuple):
    """One copy.

    Attributes:
        token: Tells it from all others.
        machine: Who made it.
        mark: What it was made from, as its maker says.
        files: The paths of its files within the folder; that which says that all is there is last.
    """

    token: str
    machine: str
    mark: int
    files: tuple[str, ...]

    @classmethod
    def from_wire(cls, document: dict[str, Any]) -> Self:
        """Read what lists it."""
        files = tuple(document["files"])
        return cls(document["token"], document["machine"], document["mark"], files)

    def key(self, number: int) -> str:
        """The key of a file: names of files may be none that a store can hold."""
        return f"{self.token}/{number:06}"


class FolderCopies:
    """The copies below one prefix of an object store, each with a name."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects

    def find(self, name: str) -> FolderCopy | None:
        """The newest copy of a name, if there is one."""
        with suppress(NotFound):
            return FolderCopy.from_wire(wire.loads(self._objects.get(f"{name}.json")))
        return None

    def save(self, name: str, folder: Path, paths: Sequence[Path], mark: int = 0) -> FolderCopy:
        """Put files of a folder in the place of the former copy of a name.

        Raises:
            Unavailable: The store, the network or the disk failed; the former copy is still there.
        """
        former = self.find(name)
        files = tuple(str(path.relative_to(folder)) for path in paths)
        copy = FolderCopy(secrets.token_hex(16), machine_name(), mark, files)
        with disk(), ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="copies") as pool:
            keys = map(copy.key, range(len(paths)))
            list(pool.map(self._objects.put_file, keys, paths))
        self._objects.put_bytes(f"{name}.json", wire.dumps(copy._asdict()))
        if former is not None:
            for info in list(self._objects.list(f"{former.token}/")):
                self._objects.delete(info.key)
        return copy

    def fetch(self, copy: FolderCopy, folder: Path) -> None:
        """Write the files of a copy into a folder, that which says that all is there last.

        Raises:
            Unavailable: A file is not there, or the store, the network or the disk failed.
        """
        found = {info.key: info for info in self._objects.list(f"{copy.token}/")}
        for number, file in enumerate(copy.files):
            info, path = found.get(copy.key(number)), folder / file
            if info is None:
                raise Unavailable(
                    self._objects.url(copy.key(number)),
                    "it was replaced or removed",
                    "start the backfill again with its id",
                )
            make_folder(path.parent)
            self._objects.fetch(info, path)
            sync(path)
            sync(path.parent)

    def drop(self) -> None:
        """Remove all copies, what lists them first."""
        infos = list(self._objects.list())
        for info in sorted(infos, key=lambda each: "/" in each.key):
            self._objects.delete(info.key)


def machine_name() -> str:
    """What people know this machine by."""
    return socket.gethostname()


def files_below(paths: Iterable[Path]) -> list[Path]:
    """The files that paths are, or hold, in order; what is not there is left out."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(each for each in path.rglob("*") if each.is_file())
        elif path.is_file():
            found.append(path)
    return found
