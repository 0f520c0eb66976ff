"""Lake files in Google Cloud Storage; DuckDB reads them through gcsfs, with our credentials."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb

from meterlake.model.errors import Unavailable
from meterlake.model.values.sql import quote
from meterlake.stores.lake.backends.bucket_files import BucketFiles
from meterlake.stores.objects.gcs import GcsObjects, translate_errors


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
