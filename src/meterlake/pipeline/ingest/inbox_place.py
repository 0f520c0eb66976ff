"""Where an inbox lies, and what in it is meant to be ingested."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from meterlake.model.errors import Unavailable
from meterlake.pipeline.ingest.drop_folder import UNFINISHED
from meterlake.stores import Stores
from meterlake.stores.files.folders import strangers
from meterlake.stores.objects import ObjectInfo, ObjectStore, open_objects
from meterlake.stores.objects.base import checked_key


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
