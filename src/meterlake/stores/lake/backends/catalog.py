"""The catalog of a lake: what DuckLake attaches, who may write, and how readers are kept apart."""

import fcntl
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Final

import duckdb

from meterlake.model.errors import Busy
from meterlake.model.values.sql import quote
from meterlake.stores.files.durable import disk, sync, write_durably
from meterlake.stores.files.locks import hold_lock

_TRIES: Final = 100
_PAUSE_S: Final = 0.02


class Catalog(ABC):
    """The database that knows a lake's tables, files and snapshots.

    Attributes:
        extension: DuckDB's extension that reads it.
        inlined_types: The types in which DuckLake keeps here what it inlines, by those of a lake.
    """

    extension: ClassVar[str]
    inlined_types: ClassVar[Mapping[str, str]]

    @property
    @abstractmethod
    def schema(self) -> str:
        """The schema of DuckLake's own tables, in the database that it attaches beside the lake."""

    @property
    @abstractmethod
    def is_local(self) -> bool:
        """Whether it lies on this machine, where the system keeps processes apart."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether a lake was created here.

        Raises:
            Unavailable: Nobody answers.
        """

    @abstractmethod
    def create(self) -> None:
        """Make what has to be there before DuckLake first attaches it; under the lock."""

    def guard(self) -> None:  # noqa: B027 - seldom needed
        """Let only the writer that holds the lock commit from now on; under the lock."""

    def close(self) -> None:  # noqa: B027 - seldom needed
        """Close its own connections; it can be used again afterwards."""

    @abstractmethod
    def secrets(self) -> Iterator[str]:
        """The statements that tell DuckDB how to sign in."""

    def retries(self) -> Iterator[str]:
        """The statements that say how often DuckLake tries a commit again; as it does by itself."""
        return iter(())

    @abstractmethod
    def address(self) -> str:
        """What is attached, such as `ducklake:sqlite:/srv/lake/catalog.sqlite`."""

    def public_address(self) -> str:
        """The same for people who sign in as themselves, as their own settings say."""
        return self.address()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files of this machine that DuckDB reads it from."""
        return ()

    @abstractmethod
    def options(self, *, public: bool = False) -> Iterator[str]:
        """The options of ATTACH that belong to the catalog.

        Args:
            public: For people who sign in as themselves.
        """

    @abstractmethod
    def database_statement(self, *, read_only: bool) -> str:
        """The statement that attaches the database itself as `metadata`, without DuckLake."""

    @abstractmethod
    def drop(self) -> None:
        """Remove DuckLake's tables with all their rows; under the lock."""

    @abstractmethod
    def moved_to(self) -> str | None:
        """Where the lake was moved to; None if it is here. Under the lock."""

    @abstractmethod
    def mark_moved(self, target: str | None) -> None:
        """Write down where the lake is from now on; None if it is here. Under the lock.

        Processes that still have the former settings see it, and write nothing here any more.
        """

    @abstractmethod
    def lock(self, timeout_s: float) -> AbstractContextManager[None]:
        """Hold the lake's writer lock while the body runs; it is free when the process dies.

        Args:
            timeout_s: How long to wait for another writer; for ever when negative.

        Raises:
            Busy: Another writer held it all that time.
            Unavailable: Nobody answers.
        """

    def sign(self, connection: duckdb.DuckDBPyConnection) -> None:  # noqa: B027 - seldom needed
        """Say in a transaction that has just begun which writer commits it."""

    def identity(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> str:  # noqa: ARG002
        """What tells a snapshot from another one of the same number; empty if there is none.

        A server that was restored, or whose place another one took, may have lost the last commits,
        and gives their numbers again.

        Args:
            connection: Where the lake is attached.
            snapshot: Its number.
        """
        return ""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Read while the body runs."""

    @abstractmethod
    def without_readers(self) -> AbstractContextManager[bool]:
        """Keep readers out while the body runs; false if there always were some."""


class SqliteCatalog(Catalog):
    """A catalog in a file of a folder; its locks are files beside it."""

    extension = "sqlite_scanner"
    inlined_types = MappingProxyType(
        {
            **dict.fromkeys(("int64", "int32", "int16", "boolean"), "BIGINT"),
            **dict.fromkeys(("varchar", "uint64", "timestamp", "decimal(38,12)"), "VARCHAR"),
        }
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def schema(self) -> str:
        """See `Catalog.schema`."""
        return "main"

    @property
    def is_local(self) -> bool:
        """See `Catalog.is_local`."""
        return True

    @property
    def file(self) -> Path:
        """The database."""
        return self.folder / "catalog.sqlite"

    @property
    def gate(self) -> Path:
        """What readers hold while they read."""
        return self.folder / "readers.lock"

    def exists(self) -> bool:
        """See `Catalog.exists`."""
        return self.file.exists()

    def create(self) -> None:
        """See `Catalog.create`; DuckLake makes the file."""

    def secrets(self) -> Iterator[str]:
        """See `Catalog.secrets`; there are none."""
        return iter(())

    def address(self) -> str:
        """See `Catalog.address`."""
        return f"ducklake:sqlite:{self.file}"

    def database_statement(self, *, read_only: bool) -> str:
        """See `Catalog.database_statement`."""
        options = ["TYPE sqlite", "BUSY_TIMEOUT 10000"]
        options += ["READ_ONLY"] if read_only else ["JOURNAL_MODE 'WAL'"]
        return f"ATTACH {quote(self.file)} AS metadata ({', '.join(options)})"

    def drop(self) -> None:
        """See `Catalog.drop`."""
        with disk():
            for path in self.paths:
                path.unlink(missing_ok=True)
        if self.folder.is_dir():
            sync(self.folder)

    def moved_to(self) -> str | None:
        """See `Catalog.moved_to`."""
        with disk(), suppress(FileNotFoundError):
            return self._moved.read_text("utf-8")
        return None

    def mark_moved(self, target: str | None) -> None:
        """See `Catalog.mark_moved`."""
        if target is not None:
            with write_durably(self._moved) as temporary:
                temporary.write_text(target, "utf-8")
        elif self._moved.exists():
            with disk():
                self._moved.unlink()
            sync(self.folder)

    @property
    def _moved(self) -> Path:
        return self.folder / "moved.txt"

    @property
    def paths(self) -> tuple[Path, ...]:
        """See `Catalog.paths`."""
        suffixes = ("", "-wal", "-shm", "-journal")
        return tuple(self.file.with_name(self.file.name + suffix) for suffix in suffixes)

    def options(self, *, public: bool = False) -> Iterator[str]:  # noqa: ARG002
        """See `Catalog.options`."""
        yield "META_JOURNAL_MODE 'WAL'"
        yield "META_BUSY_TIMEOUT 10000"

    @contextmanager
    def lock(self, timeout_s: float) -> Iterator[None]:
        """See `Catalog.lock`; the system frees a file that is locked."""
        busy = Busy("lake", f"another process writes to {self.folder.name}; try again later")
        with hold_lock(self.folder / "writer.lock", busy, timeout_s):
            yield

    def reading(self) -> AbstractContextManager[None]:
        """See `Catalog.reading`; waits only for `without_readers`, some milliseconds."""
        return reading(self.gate)

    def without_readers(self) -> AbstractContextManager[bool]:
        """See `Catalog.without_readers`; gives up after two seconds."""
        return without_readers(self.gate)


@contextmanager
def reading(gate: Path) -> Iterator[None]:
    """Read while the body runs; waits only for `without_readers`, some milliseconds."""
    try:
        handle = os.open(gate, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError:
        yield  # Where nothing may be written, nobody does upkeep.
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


@contextmanager
def without_readers(gate: Path) -> Iterator[bool]:
    """Keep readers out while the body runs; false if there always were some, for two seconds."""
    handle = os.open(gate, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield _is_taken(handle)
    finally:
        os.close(handle)


def _is_taken(handle: int) -> bool:
    for _ in range(_TRIES):
        # Never waiting in line: readers would have to wait behind us.
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_PAUSE_S)
    return False
