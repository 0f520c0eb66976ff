"""Where files are dropped, and which of them are complete: looking at them needs nothing of ingest."""

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meterlake.stores import Stores
from meterlake.stores.files.durable import disk, make_folder
from meterlake.stores.files.folders import file_name, is_own_file

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


def _is_unfinished(path: Path) -> bool:
    return path.name.startswith(".") or path.name.endswith(UNFINISHED)
