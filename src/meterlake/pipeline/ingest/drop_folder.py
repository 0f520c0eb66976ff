"""Where files are dropped, and which of them are complete: looking at them needs nothing of ingest."""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meterlake.model.errors import Unavailable
from meterlake.stores import Stores
from meterlake.stores.files.durable import disk, make_folder
from meterlake.stores.files.folders import file_name, is_own_file, strangers
from meterlake.stores.objects import ObjectInfo, ObjectStore, open_objects
from meterlake.stores.objects.base import checked_key

# How many inboxes one look covers, and how coarse the times of a file system may be.
_FOLDERS_MAX: Final = 256
_TICK_NS: Final = 2_000_000_000
UNFINISHED: Final = (".part", ".tmp", ".filepart", ".crdownload", ".partial")


@dataclass(frozen=True)
class DropFolder:
    """The folders of one organization's drop folder."""

    root: Path

    @property
    def inbox(self) -> Path:
        """Where files are dropped."""
        return self.root / "inbox"

    @property
    def claimed(self) -> Path:
        """Where files are while they are worked on, each in a folder of its own."""
        return self.root / "claimed"

    @property
    def done(self) -> Path:
        """Where files go whose rows were looked at, one by one."""
        return self.root / "done"

    @property
    def failed(self) -> Path:
        """Where files go that could not be read at all."""
        return self.root / "failed"

    @property
    def mappings(self) -> Path:
        """Where the mappings lie that claim dropped files by their names."""
        return self.root / "mappings"

    def create(self) -> None:
        """Create the folders where they are missing."""
        for folder in (self.inbox, self.claimed, self.done, self.failed, self.mappings):
            make_folder(folder)


def drop_folder(stores: Stores, org_code: str) -> DropFolder:
    """The drop folder of an organization, below the home."""
    return DropFolder(stores.home / "drop" / org_code)


def resting_files(inbox: Path, rest_seconds: int) -> list[Path]:
    """The files that are complete, oldest first: named so, and unchanged for a while."""
    settled = time.time() - rest_seconds
    found = []
    for path in inbox.iterdir():
        if _is_unfinished(path) or not is_own_file(path):
            continue
        try:
            modified = path.stat().st_mtime
        except FileNotFoundError:
            continue  # Whoever dropped it took it back.
        # Against a clock that was set back, a file from the future counts as at rest.
        if modified <= settled or modified > time.time() + rest_seconds:
            found.append((modified, path.name, path))
    return [path for _, _, path in sorted(found)]


def left_alone(inbox: Path) -> list[str]:
    """The names of what lies in an inbox and will never be taken: folders, links, pipes.

    Raises:
        Unavailable: The disk failed.
    """
    with disk(), suppress(FileNotFoundError):
        return sorted(
            file_name(path)
            for path in inbox.iterdir()
            if not _is_unfinished(path) and not is_own_file(path) and os.path.lexists(path)
        )
    return []


class DropFolders:
    """Finds the drop folders with something to do: by a look at the time of each inbox.

    An inbox whose time is the same as at the last look, when nothing was to be taken, is not
    listed. One look covers a part of many folders, so its cost is bounded.

    Args:
        home: The home folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        # The time that an inbox had when there was nothing to be taken.
        self._empty: dict[str, int] = {}
        self._busy: set[str] = set()
        self._next = 0

    def find_waiting(self, codes: Sequence[str]) -> list[str]:
        """Those of some organizations' codes whose folders have something to be taken.

        Raises:
            Unavailable: The disk failed.
        """
        with disk():
            places = range(self._next, self._next + min(len(codes), _FOLDERS_MAX))
            self._next = places.stop
            looked = [*self._busy.intersection(codes), *(codes[n % len(codes)] for n in places)]
            found = [code for code in dict.fromkeys(looked) if self._waits(code)]
        self._busy = set(found)
        return found

    def _waits(self, code: str) -> bool:
        folder = DropFolder(self._home / "drop" / code)
        try:
            changed = folder.inbox.stat().st_mtime_ns
        except FileNotFoundError:
            return True  # Whoever takes its turn makes it.
        if self._empty.get(code) == changed:
            return False
        self._empty.pop(code, None)
        if any(_takeable(folder.inbox)) or any(each.is_dir() for each in folder.claimed.iterdir()):
            return True
        # A file that comes within the same tick of the file system's clock changes no time.
        if changed < time.time_ns() - _TICK_NS:
            self._empty[code] = changed
        # What will never be taken is logged, once.
        return bool(left_alone(folder.inbox))


def _takeable(inbox: Path) -> Iterator[str]:
    with os.scandir(inbox) as entries:
        for each in entries:
            if not _is_unfinished(Path(each.name)) and each.is_file(follow_symlinks=False):
                yield each.name


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(".") or path.name.endswith(UNFINISHED)


@dataclass(frozen=True)
class InboxPlace:
    """The store of an inbox, and where in it the inbox lies: its archive lies beside it."""

    objects: ObjectStore
    prefix: str
    folder: Path | None = None

    @classmethod
    def at(cls, url: str, stores: Stores) -> "InboxPlace":
        """The place of a URL, or of the whole path of a folder.

        Raises:
            Invalid: It is none.
        """
        parent, _, last = url.rpartition("/")
        folder = None if "://" in url else Path(url)
        if not parent or parent.endswith(":/"):  # The whole bucket, or a folder of the root.
            return cls(open_objects(url, stores.settings), "", folder)
        return cls(open_objects(parent, stores.settings), f"{checked_key(last)}/", folder)

    @property
    def gone(self) -> bool:
        """Whether the inbox is a folder that is not there: to a store it would only be empty."""
        return self.folder is not None and not self.folder.is_dir()

    def expect(self) -> None:
        """Check that there is something to look into.

        Raises:
            Unavailable: The folder is not there: a file system that is not mounted, perhaps.
        """
        if self.gone:
            raise Unavailable("inbox", f"there is no folder {self.folder}", "mount it, or make it")

    def strangers(self) -> Iterator[str]:
        """What lies in a folder and cannot be taken: links, pipes and the like."""
        found = () if self.folder is None else strangers(self.folder)
        return (name for name in found if not _is_hidden(name))

    def arrivals(self) -> Iterator[ObjectInfo]:
        """The objects that are meant: no folder markers, nothing hidden, nothing unfinished."""
        for info in self.objects.list(self.prefix):
            name = info.key.removeprefix(self.prefix)
            if not _is_marker(name, info) and not _is_hidden(name):
                yield info


def _is_marker(name: str, info: ObjectInfo) -> bool:
    return not name or name.endswith("/") or (name.endswith("_$folder$") and not info.size_bytes)


def _is_hidden(name: str) -> bool:
    return name.endswith(UNFINISHED) or any(part[:1] in {".", "_"} for part in name.split("/"))
