"""Lake files in a bucket of S3 or GCS: uploaded by us, read by DuckDB with the credentials of the store."""

import os
import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.errors import MeterlakeError, Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import quote
from meterlake.stores.lake.backends.data_files import DataFiles, Send
from meterlake.stores.objects.base import ObjectInfo, ObjectStore
from meterlake.stores.objects.gcs import GcsObjects, translate_errors
from meterlake.stores.objects.s3 import S3Objects

# Each waits for the network most of the time.
_AT_ONCE: Final = 4
# What waited longer for its commit is sent again: upkeep removes what nobody registers for a day.
_SENT_FOR_S: Final = 3600.0
_SECRET: Final = "meterlake_files"  # noqa: S105 - its name


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
                # Remove what nobody stored; what cannot be removed now are orphans,
                # which upkeep removes.
                names = [name for name in left if _is_put(sent[name].put)]
                # After one failure no other file is tried: each may take as long as the network is waited for.
                with suppress(MeterlakeError):
                    for unstored in names:
                        self.objects.delete(unstored)

    def _put(self, pool: ThreadPoolExecutor, file: tuple[Path, str]) -> "Future[ObjectInfo]":
        staged, name = file
        return pool.submit(self.objects.put_file, name, staged)

    def _find_sent(self, name: str) -> "Future[ObjectInfo] | None":
        """What was sent and need not be sent again; a failure may be over when it is stored."""
        found = self._sent.get(name)
        if found is None or time.monotonic() - found.began > _SENT_FOR_S:
            return None
        return found.put if not found.put.done() or _is_put(found.put) else None

    def names(self) -> set[str]:
        """See `DataFiles.names`."""
        return {each.key for each in self.objects.list() if each.key.endswith(".parquet")}


def _is_put(put: "Future[ObjectInfo]") -> bool:
    """Whether a put that has ended, or was not begun, put its object."""
    return not put.cancelled() and put.exception() is None


class S3Files(BucketFiles):
    """Files below a prefix of a bucket of S3."""

    def __init__(self, store: S3Objects) -> None:
        super().__init__(store)
        self._store = store
        # What the newest secret of each connection holds, by the connection's id.
        self._known: dict[int, tuple[str, ...]] = {}

    def prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """See `DataFiles.prepare`."""
        self._known.pop(id(connection), None)
        self.renew(connection)

    def renew(self, connection: duckdb.DuckDBPyConnection) -> None:
        """See `DataFiles.renew`; credentials of roles end after an hour or so."""
        found = self._store.credentials()
        if self._known.get(id(connection)) != found:
            connection.execute(self._secret(*found))
            self._known[id(connection)] = found

    def public_secrets(self) -> Iterator[str]:
        """See `DataFiles.public_secrets`."""
        yield self._secret("YOUR KEY ID", "YOUR SECRET", "", "YOUR REGION")

    def _secret(self, key_id: str, secret: str, token: str, region: str) -> str:
        options = {"KEY_ID": key_id, "SECRET": secret, "SESSION_TOKEN": token, "REGION": region}
        options |= {"SCOPE": self.root}
        endpoint = self._store.endpoint
        if endpoint:
            scheme, _, host = endpoint.partition("://")
            options |= {"ENDPOINT": host.rstrip("/"), "URL_STYLE": "path"}
            options |= {"USE_SSL": "false"} if scheme == "http" else {}
        listed = ", ".join(f"{name} {quote(each)}" for name, each in options.items() if each)
        return f"CREATE OR REPLACE SECRET {_SECRET} (TYPE s3, {listed})"


class GcsFiles(BucketFiles):
    """Files below a prefix of a bucket of GCS."""

    def __init__(self, store: GcsObjects) -> None:
        super().__init__(store)
        self._store = store

    def prepare(self, connection: duckdb.DuckDBPyConnection) -> None:
        """See `DataFiles.prepare`."""
        connection.register_filesystem(_file_system(self._store, self.root))

    def public_secrets(self) -> Iterator[str]:
        """See `DataFiles.public_secrets`; DuckDB itself takes keys of HMAC."""
        options = f"KEY_ID 'YOUR HMAC KEY', SECRET 'YOUR HMAC SECRET', SCOPE {quote(self.root)}"
        yield f"CREATE OR REPLACE SECRET meterlake_files (TYPE gcs, {options})"


def _file_system(store: GcsObjects, root: str) -> Any:
    # Another way to ask Google, which stands still for a minute where there is none.
    os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    try:
        from gcsfs import GCSFileSystem  # noqa: PLC0415 - half a second
    except ModuleNotFoundError as error:
        raise Unavailable(
            "gcsfs", "lakes in gs:// need it", "install it: pip install 'meterlake[gcs]'"
        ) from error

    token = store.credentials()
    endpoint = {"endpoint_url": store.endpoint} if store.endpoint else {}
    with translate_errors(root):
        # A listing that it keeps does not have what was uploaded since, by us or another machine.
        system = GCSFileSystem(
            token="google_default" if token is None else token, use_listings_cache=False, **endpoint
        )
    # Clean-up asks for the age of what looks like a folder, too, which has none: it is no orphan.
    system.modified = lambda path: system.info(path).get("mtime") or datetime.now(UTC)
    return system
