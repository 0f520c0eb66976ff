"""One backfill at work: its stores, its folder, and what it staged there."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar, Final

from meterlake.model.errors import Busy, Conflict
from meterlake.model.values import wire
from meterlake.model.work.backfill import Backfill
from meterlake.pipeline.jobs.progress import Progress, untold
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk, make_folder, write_durably
from meterlake.stores.files.folder_copies import FolderCopy, machine_name
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.lake.lake import Lake

FOLDER: Final = "backfills"
# Beside the folders of backfills; no id begins with a dot.
LOCKS: Final = ".locks"


@dataclass(frozen=True, slots=True)
class Folder:
    """Where a backfill keeps what it staged, on the lake's file system, for as long as it counts.

    Attributes:
        path: The folder; its name is the backfill's id.
        WHOLE: The file beside the kept files that says that all of them are there.
    """

    path: Path
    WHOLE: ClassVar = "all-here"

    @property
    def gone(self) -> Path:
        """The keys of the measurements that it takes away."""
        return self.path / "gone.parquet"

    @property
    def came(self) -> Path:
        """The keys of the measurements that it brought."""
        return self.path / "came.parquet"

    @property
    def wrong(self) -> Path:
        """The keys of the measurements whose calculation errors it replaces."""
        return self.path / "wrong.parquet"

    @property
    def errors(self) -> Path:
        """The calculation errors that it brings."""
        return self.path / "errors.parquet"

    @property
    def rows(self) -> Path:
        """The folder of the measurements that it brings, table by table."""
        return self.path / "rows"

    @property
    def staged(self) -> tuple[Path, ...]:
        """All that staging writes but the manifest."""
        return self.gone, self.wrong, self.errors, self.rows

    @property
    def sources(self) -> Path:
        """The folder of the files that replace measurements."""
        return self.path / "sources"

    @property
    def staged_copy(self) -> Path:
        """Which copy in the lake's bucket is what is staged here."""
        return self.path / "staged.copy"

    @property
    def sources_copy(self) -> Path:
        """Which copy in the lake's bucket the files here are."""
        return self.path / "sources.copy"

    @property
    def manifest(self) -> Path:
        """What is staged; it is written last."""
        return self.path / "staged.json"

    def read(self) -> dict[str, Any]:
        """The manifest.

        Raises:
            Conflict: Nothing is staged whole.
        """
        try:
            found: dict[str, Any] = wire.loads(self.manifest.read_bytes())
        except FileNotFoundError:
            raise not_staged(self.path.name) from None
        return found

    def write(self, content: Mapping[str, Any]) -> None:
        """Write the manifest: now all is staged."""
        with write_durably(self.manifest) as temporary:
            temporary.write_bytes(wire.dumps(dict(content)))

    @property
    def configured(self) -> Path:
        """What tells which configuration it was staged with; gone if it has to be staged again."""
        return self.path / "configured"

    def staged_with(self, configured: str) -> bool:
        """Whether all is staged, and with this configuration."""
        with suppress(FileNotFoundError):
            return self.manifest.exists() and self.configured.read_text() == configured
        return False

    def begin(self) -> None:
        """Take back that all is staged; what is there of it may be used again."""
        make_folder(self.path)
        with disk():
            self.manifest.unlink(missing_ok=True)

    def clear(self, *names: Path) -> None:
        """Remove files and folders of it, where they are."""
        for path in names:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def not_staged(id: str, copy: FolderCopy | None = None) -> Conflict:
    """The refusal of what needs staged files that are not here, nor in the bucket of the lake."""
    stale = f", and what machine {copy.machine!r} staged is out of date" if copy else ""
    return Conflict(
        f"backfill {id!r} is not staged on machine {machine_name()!r}{stale}: start it again with"
        " its id"
    )


@dataclass(frozen=True, slots=True)
class BackfillJob:
    """One backfill and what works on it."""

    organization: Organization
    backfill: Backfill
    author: str
    progress: Progress = untold

    @property
    def lake(self) -> Lake:
        """The organization's lake."""
        return self.organization.lake

    @property
    def folder(self) -> Folder:
        """The backfill's folder."""
        return Folder(self.lake.folder / FOLDER / self.backfill.id)

    @property
    def now(self) -> datetime:
        """The time."""
        return self.organization.now()


@contextmanager
def lock_backfill(organization: Organization, id: str) -> Iterator[None]:
    """Be the only one that works on a backfill.

    Raises:
        Busy: Another process does.
    """
    folder = organization.lake.folder / FOLDER / LOCKS
    make_folder(folder)
    busy = Busy(f"backfill {id!r}", "another process works on it; try again later")
    away = Busy(f"backfill {id!r}", "a process of another machine works on it; try again later")
    with (
        hold_lock(folder / f"{id}.lock", busy),
        organization.state.lock(f"backfill {organization.id} {id}", away),
    ):
        yield
