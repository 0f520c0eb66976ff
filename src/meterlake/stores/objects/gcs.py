"""Objects in a Google Cloud Storage bucket, or in anything that speaks its JSON protocol."""

import io
import os
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import Any, BinaryIO, Final, cast

import google_crc32c
import requests.exceptions
from google.api_core import exceptions
from google.auth import exceptions as auth_exceptions
from google.auth.credentials import AnonymousCredentials, Credentials, Signing
from google.auth.transport.requests import Request
from google.cloud import storage
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY

from meterlake.model.errors import Invalid, NotFound, ObjectExists, Unavailable
from meterlake.stores.objects.base import (
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    ObjectInfo,
    ObjectStore,
    Opened,
    Refused,
    SignedPut,
    Translated,
    checked_key,
    from_status,
)
from meterlake.stores.objects.federation import IdentityPool, credentials

# Objects above 8 MiB go up in chunks of this size, each of which is held in memory.
CHUNK_BYTES: Final = 16 << 20
_GOOGLE: Final = "https://storage.googleapis.com"
_TIMEOUT: Final = (CONNECT_TIMEOUT_S, READ_TIMEOUT_S)
# Every call is made idempotent by its condition or by its nature, so all of them are retried.
_RETRY: Final = DEFAULT_RETRY.with_timeout(30.0).with_delay(initial=0.2, maximum=4.0)
_OPTIONS: Final[dict[str, Any]] = {"timeout": _TIMEOUT, "retry": _RETRY}


class GcsObjects(ObjectStore):
    """Objects below a prefix of one bucket; their SHA-256 is kept as metadata."""

    def __init__(
        self, bucket: str, prefix: str, endpoint: str | None, pool: IdentityPool | None = None
    ) -> None:
        self._bucket_name = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self.endpoint = endpoint
        self._pool = pool

    @cached_property
    def _bucket(self) -> Any:
        with translate_errors(f"gs://{self._bucket_name}"):
            options: dict[str, Any] = {}
            if self.endpoint:
                options["client_options"] = {"api_endpoint": self.endpoint}
            found = self.credentials()
            if found is not None:  # The project is only asked for when buckets are made.
                options |= {"credentials": found, "project": "none"}
            return storage.Client(**options).bucket(self._bucket_name)

    def credentials(self) -> Credentials | None:
        """Whom we act for; None is who this machine is."""
        if self._pool is not None:
            return credentials(self._pool)
        if self.endpoint and "GOOGLE_APPLICATION_CREDENTIALS" not in os.environ:
            # Asking Google's library where there is nothing to find takes it many seconds.
            anonymous: Any = AnonymousCredentials
            return cast(Credentials, anonymous())
        return None

    def url(self, key: str) -> str:
        """The `gs://` URL of an object."""
        return f"gs://{self._bucket_name}/{self._name(key)}"

    def head(self, key: str) -> ObjectInfo:
        """See `ObjectStore.head`."""
        blob = self._load(key)
        return ObjectInfo(key, blob.size, (blob.metadata or {}).get("sha256"), str(blob.generation))

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        return self._stream(key, self._load(key))

    def _stream(self, key: str, blob: Any, **more: Any) -> BinaryIO:
        with translate_errors(self.url(key)):
            # Ranges of one generation: an object replaced meanwhile is an error, not a mixture.
            source = cast(
                BinaryIO,
                blob.open(
                    "rb",
                    chunk_size=CHUNK_BYTES,
                    if_generation_match=blob.generation,
                    **_OPTIONS,
                    **more,
                ),
            )
        return io.BufferedReader(Translated(source, translate_errors, self.url(key)), 1 << 20)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        prefix_length = len(self._prefix)
        with translate_errors(f"gs://{self._bucket_name}"):
            for blob in self._bucket.list_blobs(prefix=self._prefix + prefix, **_OPTIONS):
                yield ObjectInfo(blob.name[prefix_length:], blob.size, version=str(blob.generation))

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        try:
            with translate_errors(self.url(key)):
                self._bucket.blob(self._name(key)).delete(**_OPTIONS)
        except NotFound:
            pass

    def signed_put(
        self, key: str, size_bytes: int, content_type: str, seconds: int
    ) -> SignedPut | None:
        """See `ObjectStore.signed_put`; length, type and condition are under the signature."""
        signed = {
            "x-goog-content-length-range": f"{size_bytes},{size_bytes}",
            "x-goog-if-generation-match": "0",
        }
        with translate_errors(self.url(key)):
            url = self._bucket.blob(self._name(key)).generate_signed_url(
                version="v4",
                method="PUT",
                expiration=timedelta(seconds=seconds),
                content_type=content_type,
                headers=signed,
                api_access_endpoint=self.endpoint or _GOOGLE,
                **self._signer(),
            )
        headers = {"Content-Length": str(size_bytes), "Content-Type": content_type}
        return SignedPut(url, {**headers, **signed})

    def _signer(self) -> dict[str, str]:
        """Who signs where we have no private key: Google does, for a machine's own account."""
        credentials = self._bucket.client._credentials  # noqa: SLF001 - it has no public name
        if isinstance(credentials, Signing):
            return {}
        email = getattr(credentials, "service_account_email", None)
        if email is None:
            raise Invalid(
                "object store",
                self.url("-"),
                "signing needs a service account; use the credentials of one",
            )
        credentials.refresh(Request())
        return {"service_account_email": email, "access_token": credentials.token}

    def copy(self, info: ObjectInfo, key: str) -> None:
        """See `ObjectStore.copy`."""
        source = self._bucket.blob(self._name(info.key))
        target, token = self._bucket.blob(self._name(key)), None
        with self._of_version(info, translate_errors):
            while True:  # A large object takes several calls.
                token, _, _ = target.rewrite(
                    source, token=token, if_source_generation_match=int(info.version), **_OPTIONS
                )
                if token is None:
                    return

    def tag(self, info: ObjectInfo, name: str, value: str) -> str:
        """See `ObjectStore.tag`; a tag is a member of the object's metadata."""
        blob = self._bucket.blob(self._name(info.key))
        with self._of_version(info, translate_errors):
            blob.metadata = {name: value}
            blob.patch(if_generation_match=int(info.version), **_OPTIONS)
        return info.version

    def delete_version(self, info: ObjectInfo) -> None:
        """See `ObjectStore.delete_version`."""
        with self._of_version(info, translate_errors):
            self._bucket.blob(self._name(info.key)).delete(
                if_generation_match=int(info.version), **_OPTIONS
            )

    def _open_version(self, info: ObjectInfo) -> Opened:
        blob = self._load(info.key)
        if str(blob.generation) != info.version:
            raise self._replaced_error(info)
        # The bytes as they are stored: what is marked as gzip would come decompressed.
        stream = self._stream(info.key, blob, raw_download=True)
        if blob.crc32c is None:
            return Opened(stream)
        hasher: Any = google_crc32c.Checksum  # It has no annotations.
        return Opened(stream, hasher(), b64decode(blob.crc32c).hex())

    def _name(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _load(self, key: str) -> Any:
        blob = self._bucket.blob(self._name(key))
        with translate_errors(self.url(key)):
            blob.reload(**_OPTIONS)
        return blob

    def _put_object(self, info: ObjectInfo, content: BinaryIO, *, create_only: bool) -> None:
        blob = self._bucket.blob(self._name(info.key), chunk_size=CHUNK_BYTES)
        blob.metadata = {"sha256": info.sha256}
        try:
            with translate_errors(self.url(info.key)):
                blob.upload_from_file(
                    content,
                    size=info.size_bytes,
                    content_type="application/octet-stream",
                    checksum="crc32c",
                    if_generation_match=0 if create_only else None,
                    **_OPTIONS,
                )
        except ObjectExists:
            # A lost answer makes the library ask again, and then our own object is in the way:
            # only the content can tell.
            self._expect_same(info)


@contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise our errors for those of Google's libraries."""
    try:
        yield
    except exceptions.GoogleAPICallError as error:
        raise from_status(int(error.code or 500), str(error.message), what) from error
    except InvalidResponse as error:
        raise from_status(error.response.status_code, str(error), what) from error
    except auth_exceptions.GoogleAuthError as error:
        if isinstance(error, auth_exceptions.TransportError) or error.retryable:
            raise Unavailable(what, str(error)) from error
        raise Refused("object store", what, f"there are no credentials for it ({error})") from error
    except ValueError as error:
        raise Invalid("object store", what, str(error)) from error
    except (
        exceptions.RetryError,
        DataCorruption,
        requests.exceptions.RequestException,
        ConnectionError,
    ) as error:
        raise Unavailable(what, str(error)) from error
