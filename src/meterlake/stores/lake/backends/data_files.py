"""The Parquet files of a lake: where they lie, how one gets there, and which there are."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import duckdb

from meterlake.model.values.failpoint import mark_step
from meterlake.stores.files.durable import make_folder, move, sync
from meterlake.stores.objects.base import ObjectStore
from meterlake.stores.objects.local import LocalObjects

Send = Callable[[Path, str], None]


class DataFiles(ABC):
    """The files of a lake, below a folder or a prefix of a bucket.

    Attributes:
        extensions: DuckDB's extensions that read and write them.
        is_local: Whether they are on this machine, and staged ones on the same file system.
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    is_local: ClassVar[bool] = False

    @property
    @abstractmethod
    def root(self) -> str:
        """The folder or URL below which they are, with a slash at its end."""

    def create(self) -> None:  # noqa: B027 - seldom needed
        """Make what has to be there before the first file."""

    def prepare(self, connection: duckdb.DuckDBPyConnection) -> None:  # noqa: B027 - seldom needed
        """Tell a new connection how to reach them.

        Raises:
            Invalid: There are no credentials.
            Unavailable: Nobody answers.
        """

    def renew(self, connection: duckdb.DuckDBPyConnection) -> None:  # noqa: B027 - seldom needed
        """Tell a connection anew what may have ended since, such as credentials."""

    def public_secrets(self) -> Iterator[str]:
        """What people run who read with credentials of their own, which they put in."""
        return iter(())

    @abstractmethod
    def store(self, staged: Path, name: str) -> Path:
        """Make a staged file one of the lake's files, durably.

        Args:
            staged: The file; synced already if files are local.
            name: Its path below the root: `main/<table>/year=2026/month=10/<unique>.parquet`.

        Returns:
            Where its bytes are on this machine from now on.

        Raises:
            Unavailable: The disk, the store or the network failed.
        """

    def store_all(self, files: Sequence[tuple[Path, str]]) -> Generator[Path]:
        """Store several staged files, in their order; see `store`."""
        for staged, name in files:
            yield self.store(staged, name)

    @contextmanager
    def sending(self) -> Iterator[Send | None]:
        """Have staged files on their way before the body stores them, where that takes long.

        Those that are not stored there are removed again. Those that could not be sent are sent
        again when they are stored; a failure is that of storing them.

        Yields:
            Sends a staged file of a name, as for `store`; None if files are better stored at once.
        """
        yield None

    @property
    @abstractmethod
    def objects(self) -> ObjectStore:
        """The same files as objects, by their paths below the root."""

    @abstractmethod
    def names(self) -> set[str]:
        """The path of every file below the root, whether the catalog speaks of it or not."""

    @contextmanager
    def securing(self) -> Iterator[None]:
        """Make sure that what DuckLake writes in the body stays, before the catalog speaks of it."""
        yield


class FolderFiles(DataFiles):
    """Files in a folder of this machine; staged ones lie on the same file system."""

    is_local = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def root(self) -> str:
        """See `DataFiles.root`."""
        return f"{self.folder}/"

    def create(self) -> None:
        """See `DataFiles.create`."""
        make_folder(self.folder)

    def store(self, staged: Path, name: str) -> Path:
        """See `DataFiles.store`; the file is moved."""
        target = self.folder / name
        move(staged, target, scratch=True)
        mark_step("lake.file_moved")
        return target

    @property
    def objects(self) -> ObjectStore:
        """See `DataFiles.objects`."""
        return LocalObjects(self.folder)

    def names(self) -> set[str]:
        """See `DataFiles.names`."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*.parquet")}

    @contextmanager
    def securing(self) -> Iterator[None]:
        """See `DataFiles.securing`; DuckLake does not sync what it writes."""
        before = self.names()
        yield
        new = {self.folder / name for name in self.names().difference(before)}
        for path in sorted(new):
            sync(path)
        for folder in sorted({parent for path in new for parent in path.parents}):
            if folder.is_relative_to(self.folder):
                sync(folder)
