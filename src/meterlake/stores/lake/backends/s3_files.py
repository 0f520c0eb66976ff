"""Lake files in S3, or in what speaks its protocol; DuckDB signs in with boto3's credentials."""

from collections.abc import Iterator
from typing import Final

import duckdb

from meterlake.model.values.sql import quote
from meterlake.stores.lake.backends.bucket_files import BucketFiles
from meterlake.stores.objects.s3 import S3Objects

_SECRET: Final = "meterlake_files"  # noqa: S105 - its name


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
