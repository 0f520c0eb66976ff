"""Lake files in a bucket: uploaded by us, read by DuckDB."""

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from meterlake.model.errors import MeterlakeError
from meterlake.model.values.failpoint import mark_step
from meterlake.stores.lake.backends.data_files import DataFiles, Send
from meterlake.stores.objects.base import ObjectInfo, ObjectStore

# Each waits for the network most of the time.
_AT_ONCE: Final = 4
# What waited longer for its commit is sent again: upkeep removes what nobody registers for a day.
_SENT_FOR_S: Final = 3600.0


class _Sent(NamedTuple):
    """A file that is on its way, or there."""

    put: "Future[ObjectInfo]"
    began: float


class BucketFiles(DataFiles):
    """Files below a prefix of a bucket."""

    # DuckLake asks for it whatever reads the files.
    extensions = ("httpfs",)

    def __init__(self, store: ObjectStore) -> None:
        self._objects = store
        # By name: what was sent before it is stored.
        self._sent: dict[str, _Sent] = {}

    @property
    def objects(self) -> ObjectStore:
        """See `DataFiles.objects`."""
        return self._objects

    @property
    def root(self) -> str:
        """See `DataFiles.root`."""
        return self.objects.url("x")[:-1]

    def store(self, staged: Path, name: str) -> Path:
        """See `DataFiles.store`; the staged file stays where it is, too."""
        [path] = self.store_all([(staged, name)])
        return path

    def store_all(self, files: Sequence[tuple[Path, str]]) -> Generator[Path]:
        """See `DataFiles.store_all`; some go up at the same time, and whoever asks sees each."""
        if not files:
            return
        with ThreadPoolExecutor(min(len(files), _AT_ONCE), thread_name_prefix="upload") as pool:
            puts = [self._find_sent(each[1]) or self._put(pool, each) for each in files]
            try:
                for (staged, name), each in zip(files, puts, strict=True):
                    each.result()
                    # From now on it may be part of the lake, however the commit ends.
                    self._sent.pop(name, None)
                    mark_step("lake.file_uploaded")
                    yield staged
            finally:
                # Those of a commit that failed are of no use.
                pool.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def sending(self) -> Iterator[Send]:
        """See `DataFiles.sending`."""
        sent: dict[str, _Sent] = {}

        def send(staged: Path, name: str) -> None:
            sent[name] = _Sent(self._put(pool, (staged, name)), time.monotonic())
            self._sent[name] = sent[name]

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="upload") as pool:
            try:
                yield send
            finally:
                pool.shutdown(cancel_futures=True)
                left = [name for name in sent if self._sent.pop(name, None) is not None]
                self._remove([name for name in left if _is_put(sent[name].put)])

    def _put(self, pool: ThreadPoolExecutor, file: tuple[Path, str]) -> "Future[ObjectInfo]":
        staged, name = file
        return pool.submit(self.objects.put_file, name, staged)

    def _find_sent(self, name: str) -> "Future[ObjectInfo] | None":
        """What was sent and need not be sent again; a failure may be over when it is stored."""
        found = self._sent.get(name)
        if found is None or time.monotonic() - found.began > _SENT_FOR_S:
            return None
        return found.put if not found.put.done() or _is_put(found.put) else None

    def _remove(self, names: Sequence[str]) -> None:
        """Remove what nobody stored; what cannot be removed now are orphans, which upkeep removes."""
        # After one failure no other file is tried: each may take as long as the network is waited for.
        with suppress(MeterlakeError):
            for name in names:
                self.objects.delete(name)

    def names(self) -> set[str]:
        """See `DataFiles.names`."""
        return {each.key for each in self.objects.list() if each.key.endswith(".parquet")}


def _is_put(put: "Future[ObjectInfo]") -> bool:
    """Whether a put that has ended, or was not begun, put its object."""
    return not put.cancelled() and put.exception() is None
