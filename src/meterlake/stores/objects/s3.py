"""Objects in an S3 bucket, of Amazon or of anything that speaks its protocol."""

import hashlib
import io
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cached_property
from http import HTTPStatus
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from botocore import exceptions
from botocore.config import Config
from botocore.httpchecksum import FlexibleChecksumError

from meterlake.model.errors import Invalid, MeterlakeError, NotFound, Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.stores.objects.base import (
    ATTEMPTS,
    CONNECT_TIMEOUT_S,
    READ_TIMEOUT_S,
    Altered,
    ObjectInfo,
    ObjectStore,
    Opened,
    Refused,
    SignedPut,
    Translated,
    checked_key,
    from_status,
)
from meterlake.stores.objects.roles import ASSUMING, Role, session

if TYPE_CHECKING:
    import boto3
    from types_boto3_s3.client import S3Client

# Larger objects go up in parts. S3 takes 10,000 parts of 5 MiB to 5 GiB each.
PART_BYTES: Final = 16 << 20
_PARTS_MAX: Final = 9_000
_PART_THREADS: Final = 8
_CHECKSUM: Final = "ChecksumCRC32"
# Someone else writes the same key at this moment; S3 asks us to come again.
_CONTENDED: Final = {"ConditionalRequestConflict", "OperationAborted"}
_TAKEN: Final = {"PreconditionFailed", "412"}
# The same request may do well later, whatever the status says.
_PASSING: Final = {
    "BadDigest",
    "IncompleteBody",
    "NoSuchUpload",
    "RequestLimitExceeded",
    "RequestTimeout",
    "Throttling",
    "ThrottlingException",
}
_EXPIRED: Final = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_ELSEWHERE: Final = {
    "301",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
}
_MD5: Final = re.compile("[0-9a-f]{32}")

_Put = Callable[[ObjectInfo, BinaryIO, dict[str, Any]], None]


class _Expired(Unavailable):
    """The credentials have ended; whoever looks for them again may find newer ones."""


class S3Objects(ObjectStore):
    """Objects below a prefix of one bucket; their SHA-256 is kept as metadata."""

    def __init__(
        self, bucket: str, prefix: str, endpoint: str | None, role: Role | None = None
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self.endpoint = endpoint
        self._role = role
        # Parts of all objects that are in memory at a time, whoever sends them.
        self._parts = BoundedSemaphore(_PART_THREADS)
        # boto3 makes one client at a time.
        self._opening = Lock()

    @cached_property
    def _session(self) -> "boto3.Session":
        return session(self._role)

    @cached_property
    def _client(self) -> "S3Client":
        with self._opening, _translate_errors(f"s3://{self._bucket}"):
            found = self._session
            return found.client(
                "s3",
                endpoint_url=self.endpoint,
                region_name=found.region_name or ("us-east-1" if self.endpoint else None),
                config=Config(
                    max_pool_connections=_PART_THREADS + 2,
                    signature_version="s3v4",
                    s3={"addressing_style": "path" if self.endpoint else "auto"},
                    connect_timeout=CONNECT_TIMEOUT_S,
                    read_timeout=READ_TIMEOUT_S,
                    retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                ),
            )

    def credentials(self) -> tuple[str, str, str, str]:
        """The key's id, the secret, the token of a session, the region; as they are now.

        Raises:
            Invalid: There are none.
        """
        with self._errors(f"s3://{self._bucket}"):
            found = self._session
            own = found.get_credentials()
            if own is None:
                raise exceptions.NoCredentialsError
            now = own.get_frozen_credentials()
            region = found.region_name or ("us-east-1" if self.endpoint else "")
            return now.access_key or "", now.secret_key or "", now.token or "", region

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raise our errors for boto3's, and forget credentials that have ended."""
        try:
            with _translate_errors(what):
                yield
        except _Expired:
            self.__dict__.pop("_client", None)
            self.__dict__.pop("_session", None)
            raise

    def url(self, key: str) -> str:
        """The `s3://` URL of an object."""
        return f"s3://{self._bucket}/{self._name(key)}"

    def head(self, key: str) -> ObjectInfo:
        """See `ObjectStore.head`."""
        with self._errors(self.url(key)):
            head = self._client.head_object(Bucket=self._bucket, Key=self._name(key))
        version = _version(head["ETag"], head["LastModified"])
        return ObjectInfo(key, head["ContentLength"], head["Metadata"].get("sha256"), version)

    def open(self, key: str) -> BinaryIO:
        """See `ObjectStore.open`."""
        with self._errors(self.url(key)):
            body: Any = self._client.get_object(Bucket=self._bucket, Key=self._name(key))["Body"]
        return io.BufferedReader(Translated(body, self._errors, self.url(key)), 1 << 20)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """See `ObjectStore.list`."""
        prefix_length = len(self._prefix)
        with self._errors(f"s3://{self._bucket}"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for item in page.get("Contents", []):
                    version = _version(item["ETag"], item["LastModified"])
                    yield ObjectInfo(item["Key"][prefix_length:], item["Size"], version=version)

    def delete(self, key: str) -> None:
        """See `ObjectStore.delete`."""
        with self._errors(self.url(key)):
            self._client.delete_object(Bucket=self._bucket, Key=self._name(key))

    def abort_uploads(self, keys: Collection[str]) -> int:
        """See `ObjectStore.abort_uploads`."""
        names = {self._name(key) for key in keys}
        if not names:
            return 0
        prefix = os.path.commonprefix([*names])  # noqa: RUF071 - that of a key is of characters
        with self._errors(f"s3://{self._bucket}"):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=prefix
            )
            found = [each for page in pages for each in page.get("Uploads", ())]
            left = [each for each in found if each["Key"] in names]
            for each in left:
                with _unless_gone():
                    self._client.abort_multipart_upload(
                        Bucket=self._bucket, Key=each["Key"], UploadId=each["UploadId"]
                    )
        return len(left)

    def signed_put(
        self, key: str, size_bytes: int, content_type: str, seconds: int
    ) -> SignedPut | None:
        """See `ObjectStore.signed_put`; length, type and condition are under the signature."""
        with self._errors(self.url(key)):
            url = self._client.generate_presigned_url(
                "put_object",
                Params={
                    "Bucket": self._bucket,
                    "Key": self._name(key),
                    "ContentLength": size_bytes,
                    "ContentType": content_type,
                    "IfNoneMatch": "*",
                },
                ExpiresIn=seconds,
            )
        headers = {"Content-Length": str(size_bytes), "Content-Type": content_type}
        return SignedPut(url, {**headers, "If-None-Match": "*"})

    def copy(self, info: ObjectInfo, key: str) -> None:
        """See `ObjectStore.copy`; also of objects above 5 GiB, in parts."""
        source: Any = {"Bucket": self._bucket, "Key": self._name(info.key)}
        with self._of_version(info, self._errors):
            self._client.copy(
                source,
                self._bucket,
                self._name(key),
                ExtraArgs={"CopySourceIfMatch": _etag(info.version)},
            )

    def tag(self, info: ObjectInfo, name: str, value: str) -> str:
        """See `ObjectStore.tag`; other tags stay."""
        self._expect_version(info)
        address: Any = {"Bucket": self._bucket, "Key": self._name(info.key)}
        with self._of_version(info, self._errors):
            known = self._client.get_object_tagging(**address)["TagSet"]
            tags: Any = [tag for tag in known if tag["Key"] != name]
            tags.append({"Key": name, "Value": value})
            self._client.put_object_tagging(**address, Tagging={"TagSet": tags})
        now = self.head(info.key).version
        return now if _etag(now) == _etag(info.version) else info.version

    def delete_version(self, info: ObjectInfo) -> None:
        """See `ObjectStore.delete_version`.

        The condition closes the gap after the look; old servers do not know it.
        """
        self._expect_version(info)
        with self._of_version(info, self._errors):
            self._client.delete_object(
                Bucket=self._bucket, Key=self._name(info.key), IfMatch=_etag(info.version)
            )

    def _open_version(self, info: ObjectInfo) -> Opened:
        with self._of_version(info, self._errors):
            answer: Any = self._client.get_object(
                Bucket=self._bucket, Key=self._name(info.key), IfMatch=_etag(info.version)
            )
        raw = Translated(answer["Body"], self._errors, self.url(info.key))
        stream = io.BufferedReader(raw, 1 << 20)
        etag = _etag(info.version).strip('"')
        # Of objects that went up in parts, or are encrypted with a key, it is no MD5.
        keyed = answer.get("ServerSideEncryption", "AES256") != "AES256" or (
            "SSECustomerAlgorithm" in answer
        )
        if keyed or not _MD5.fullmatch(etag):
            return Opened(stream)
        return Opened(stream, hashlib.md5(usedforsecurity=False), etag)

    def _expect_version(self, info: ObjectInfo) -> None:
        if self.head(info.key).version != info.version:
            raise self._replaced_error(info)

    def _name(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _compares(self, size_bytes: int) -> bool:
        return size_bytes > PART_BYTES

    def _put_object(self, info: ObjectInfo, content: BinaryIO, *, create_only: bool) -> None:
        large = info.size_bytes > PART_BYTES
        put = self._put_parts if large else self._put_once
        # Looking first saves sending a large object again, and makes up for stores that do not
        # know the condition on completing an upload in parts.
        if not (create_only and large and self._is_there(info)):
            with self._errors(self.url(info.key)):
                self._put_patiently(put, info, content, create_only=create_only)

    def _put_patiently(
        self, put: _Put, info: ObjectInfo, content: BinaryIO, *, create_only: bool
    ) -> None:
        condition = {"IfNoneMatch": "*"} if create_only else {}
        for attempt in range(1, ATTEMPTS + 1):
            content.seek(0)
            try:
                return put(info, content, condition)
            except exceptions.ClientError as error:
                if create_only and _code(error) in _TAKEN:
                    # A lost answer makes the library ask again, and then our own object is in
                    # the way: only the content can tell.
                    return self._expect_ours(info)
                if _code(error) not in _CONTENDED or attempt == ATTEMPTS:
                    raise
            time.sleep(0.1 * 2**attempt)
        raise AssertionError(info)

    def _expect_ours(self, info: ObjectInfo) -> None:
        try:
            self._expect_same(info)
        except Refused as error:
            rule = (
                "there is one, and it may not be read, so that nobody can tell whether it is ours"
            )
            raise Refused("object", self.url(info.key), rule) from error

    def _put_once(self, info: ObjectInfo, content: BinaryIO, condition: dict[str, Any]) -> None:
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._name(info.key),
            Body=content,
            ContentLength=info.size_bytes,
            Metadata={"sha256": info.sha256 or ""},
            **condition,
        )

    def _put_parts(self, info: ObjectInfo, content: BinaryIO, condition: dict[str, Any]) -> None:
        target: dict[str, Any] = {"Bucket": self._bucket, "Key": self._name(info.key)}
        upload = self._client.create_multipart_upload(
            **target, Metadata={"sha256": info.sha256 or ""}, ChecksumAlgorithm="CRC32"
        )
        target["UploadId"] = upload["UploadId"]
        try:
            parts = self._send_parts(target, content, info)
            self._client.complete_multipart_upload(
                **target, MultipartUpload={"Parts": parts}, **condition
            )
        except BaseException:
            # The upload may have been completed without our knowing, and the error that
            # brought us here says more than one that comes now.
            with suppress(exceptions.ClientError, exceptions.BotoCoreError):
                self._client.abort_multipart_upload(**target)
            raise

    def _send_parts(
        self, target: dict[str, Any], content: BinaryIO, info: ObjectInfo
    ) -> Sequence[Any]:
        part_bytes = max(PART_BYTES, -(-info.size_bytes // _PARTS_MAX))
        digest = hashlib.sha256()
        parts: list[Any] = []

        def send(number: int, data: bytes) -> dict[str, Any]:
            try:
                answer: Any = self._client.upload_part(
                    **target, PartNumber=number, Body=data, ChecksumAlgorithm="CRC32"
                )
            finally:
                self._parts.release()
            mark_step("objects.part_put")
            # Servers that do not know checksums of parts do not tell them.
            checksum = {_CHECKSUM: answer[_CHECKSUM]} if _CHECKSUM in answer else {}
            return {"PartNumber": number, "ETag": answer["ETag"], **checksum}

        with ThreadPoolExecutor(_PART_THREADS) as pool:
            running: list[Any] = []
            for number in range(1, -(-info.size_bytes // part_bytes) + 1):
                if len(running) == _PART_THREADS:  # no more in memory than is being sent
                    parts.append(running.pop(0).result())
                self._parts.acquire()
                try:
                    data = content.read(part_bytes)
                    running.append(pool.submit(send, number, data))
                except BaseException:
                    self._parts.release()
                    raise
                digest.update(data)
            parts.extend(future.result() for future in running)
        if digest.hexdigest() != info.sha256:
            raise Altered(self.url(info.key))
        return parts


def _version(etag: str, modified: datetime) -> str:
    # The same bytes put once more have the same ETag. HEAD knows no fractions of seconds.
    return f"{etag}@{int(modified.timestamp())}"


def _etag(version: str) -> str:
    return version.rpartition("@")[0]


def _code(error: exceptions.ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Abort an upload, which may have been done already: by another one, or without an answer."""
    try:
        yield
    except exceptions.ClientError as error:
        if _code(error) != "NoSuchUpload":
            raise


@contextmanager
def _translate_errors(what: str) -> Iterator[None]:
    """Raise our errors for boto3's."""
    try:
        yield
    except exceptions.ClientError as error:
        raise _from_answer(error, what) from error
    except (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.ProfileNotFound,
        exceptions.ParamValidationError,
        exceptions.NoRegionError,
        exceptions.InvalidRegionError,
        exceptions.ConfigParseError,
    ) as error:
        raise Invalid("object store", what, str(error)) from error
    except (exceptions.BotoCoreError, exceptions.HTTPClientError, FlexibleChecksumError) as error:
        raise Unavailable(what, str(error)) from error


def _from_answer(error: exceptions.ClientError, what: str) -> MeterlakeError:
    code = _code(error)
    details = error.response.get("Error", {})
    answer: Any = error.response.get("ResponseMetadata", {})
    status = int(answer.get("HTTPStatusCode", 500))
    message = details.get("Message")
    detail = f"{code}: {message}" if message else code
    if code in _EXPIRED:
        return _Expired(what, f"the credentials have ended ({detail})")
    if code in _PASSING:
        return Unavailable(what, detail)
    if code == "NoSuchBucket":
        return NotFound("bucket", "/".join(what.split("/")[:3]))
    if code in _ELSEWHERE:
        region = answer.get("HTTPHeaders", {}).get("x-amz-bucket-region", "another region")
        return Invalid(
            "object store", what, f"the bucket is in {region}; set that region ({detail})"
        )
    if error.operation_name == ASSUMING and status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return Refused("object store", what, f"the role cannot be assumed ({detail})")
    return from_status(status, detail, what)
