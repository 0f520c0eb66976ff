"""What every object store can do, and what is the same for all of them."""

import hashlib
import io
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from meterlake.model.errors import Invalid, MeterlakeError, NotFound, ObjectExists, Unavailable
from meterlake.stores.files.durable import disk

# S3 and GCS allow 1,024 bytes; some room is left for the prefix.
KEY_BYTES_MAX: Final = 900
CONNECT_TIMEOUT_S: Final = 5
READ_TIMEOUT_S: Final = 60
ATTEMPTS: Final = 4

# Turns what a library raises inside the block into our errors; the text says what was done.
Translation = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of a stored object without reading it."""

    key: str
    size_bytes: int
    sha256: str | None = None  # None: the store was not told, as for objects that others wrote
    version: str = ""  # Another one whenever the content under the key was replaced


class Refused(Invalid):
    """The store knows who we are, or does not, and does not let us."""


class Altered(MeterlakeError):
    """A file that is to be put is not what it was when it was written."""

    status = 500
    text = "{0} has changed since it was written; try again, and leave the file alone meanwhile"

    def __init__(self, file: str) -> None:
        super().__init__(file)


class Hasher(Protocol):
    """What `hashlib` and `google_crc32c` make."""

    def update(self, data: bytes, /) -> None:
        """Take in some bytes."""

    def hexdigest(self) -> str | bytes:
        """The digest of what was taken in."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One version of an object, open, with the checksum that the store keeps of it, if any."""

    stream: BinaryIO
    hasher: Hasher | None = None
    expected: str = ""


@dataclass(frozen=True, slots=True)
class SignedPut:
    """Where a client without credentials may put one object, and the headers that it must send."""

    url: str
    headers: dict[str, str]


class ObjectStore(ABC):
    """Objects below one prefix of a folder or bucket. Safe to use from several threads."""

    @abstractmethod
    def url(self, key: str) -> str:
        """Where the object is, for people: a path, an `s3://` or a `gs://` URL."""

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Size and, where known, checksum of an object.

        Raises:
            NotFound: There is no such object.
        """

    @abstractmethod
    def open(self, key: str) -> BinaryIO:
        """Open an object for reading as a stream; close it when done.

        Raises:
            NotFound: There is no such object.
        """

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with `prefix`, ordered by key. Checksums are not listed."""

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; it is no error if there is none."""

    @abstractmethod
    def copy(self, info: ObjectInfo, key: str) -> None:
        """Copy a version of an object to another key, within the store.

        Raises:
            NotFound: That version is not there any more.
        """

    @abstractmethod
    def tag(self, info: ObjectInfo, name: str, value: str) -> str:
        """Set one tag of a version of an object; its content stays.

        Returns:
            Its version from now on: some S3 servers count it as a change.

        Raises:
            NotFound: That version is not there any more.
            Invalid: Objects of this store have no tags.
        """

    @abstractmethod
    def delete_version(self, info: ObjectInfo) -> None:
        """Remove an object unless it was replaced.

        Raises:
            NotFound: That version is not there any more.
        """

    @abstractmethod
    def _open_version(self, info: ObjectInfo) -> Opened:
        """Open a version of an object; NotFound if it is not there any more."""

    @abstractmethod
    def _put_object(self, info: ObjectInfo, content: BinaryIO, *, create_only: bool) -> None:
        """Store `content`, which is at its start; `info` describes it."""

    def signed_put(
        self, key: str, size_bytes: int, content_type: str, seconds: int
    ) -> SignedPut | None:
        """A URL of the store itself for one put that begins in time; None if it has none.

        The store lets nothing in but an object of this size and type, and only where there is
        none yet.

        Raises:
            Invalid: There are no credentials to sign with.
        """
        del key, size_bytes, content_type, seconds
        return None

    def abort_uploads(self, keys: Collection[str]) -> int:
        """Throw away the parts of objects whose put did not end; the number of such puts.

        For stores that keep them until they are told otherwise. Nobody may be putting these keys.

        Raises:
            NotFound: The bucket does not exist.
            Invalid: The store refuses us.
            Unavailable: The store or the network failed.
        """
        del keys
        return 0

    def path(self, key: str) -> Path | None:
        """The file of this machine that is the object; None where objects are no files."""
        del key
        return None

    def get(self, key: str) -> bytes:
        """Read a whole object.

        Raises:
            NotFound: There is no such object.
        """
        with self.open(key) as stream:
            return stream.read()

    def fetch(self, info: ObjectInfo, path: Path) -> None:
        """Copy the listed version of an object into a file, checked, in constant memory.

        Raises:
            NotFound: The object was replaced or removed since it was listed.
            Unavailable: What came is not what was listed, or the store, the network or the disk
                failed.
        """
        opened, size = self._open_version(info), 0
        with opened.stream, disk(), path.open("wb") as file:
            while block := opened.stream.read(1 << 20):
                size += file.write(block)
                if opened.hasher is not None:
                    opened.hasher.update(block)
        if size != info.size_bytes:
            raise Unavailable(self.url(info.key), f"{size} of {info.size_bytes} bytes came")
        if opened.hasher is not None and _text(opened.hasher.hexdigest()) != opened.expected:
            raise Unavailable(self.url(info.key), "what came does not fit its checksum")

    def put_bytes(self, key: str, data: bytes, *, create_only: bool = False) -> ObjectInfo:
        """Store bytes as one object; see `put_file`."""
        return self._put_stream(key, io.BytesIO(data), create_only=create_only)

    def put_file(
        self,
        key: str,
        path: Path,
        *,
        create_only: bool = False,
        look_first: bool = False,
        sha256: str | None = None,
    ) -> ObjectInfo:
        """Store the content of a local file as one object, atomically and durably.

        Args:
            key: Parts between slashes, relative to the store's prefix.
            path: The file; it must not change meanwhile.
            create_only: Never replace other content. Without it an existing object is replaced.
            look_first: Send nothing if it is there already, as for what is put once more.
            sha256: What its SHA-256 was when it was written, if somebody knows.

        Raises:
            Altered: It is not what it was; nothing is visible under the key.
            ObjectExists: `create_only`, and there is an object of this name with other content.
            NotFound: The bucket does not exist.
            Invalid: The key is malformed, or the store refuses us.
            Unavailable: The store or the network failed; nothing is visible under the key, or
                the whole object is.
        """
        with path.open("rb") as content:
            size = content.seek(0, io.SEEK_END)
            if sha256 is not None and not self._compares(size) and _sha256(content) != sha256:
                raise Altered(str(path))
            return self._put_stream(
                key, content, create_only=create_only, look_first=look_first, sha256=sha256
            )

    def _compares(self, size_bytes: int) -> bool:
        """Whether `_put` itself compares the hash of so many bytes while it sends them."""
        del size_bytes
        return False

    def _put_stream(
        self,
        key: str,
        content: BinaryIO,
        *,
        create_only: bool,
        look_first: bool = False,
        sha256: str | None = None,
    ) -> ObjectInfo:
        checked_key(key)
        info = ObjectInfo(key, content.seek(0, io.SEEK_END), sha256 or _sha256(content))
        content.seek(0)
        if not (create_only and look_first and self._is_there(info)):
            self._put_object(info, content, create_only=create_only)
        return info

    def _is_there(self, info: ObjectInfo) -> bool:
        """Whether what is to be put is there, as far as we are told.

        Raises:
            ObjectExists: Something else is.
        """
        try:
            self._expect_same(info)
        except (NotFound, Invalid):
            # Who may not list is told nothing of what is not there; the put says what is wrong.
            return False
        return True

    @contextmanager
    def _of_version(self, info: ObjectInfo, errors: Translation) -> Iterator[None]:
        """Ask the store for one version of an object.

        Raises:
            NotFound: The store says that it is another one by now.
        """
        try:
            with errors(self.url(info.key)):
                yield
        except ObjectExists:
            raise self._replaced_error(info) from None

    def _replaced_error(self, info: ObjectInfo) -> NotFound:
        return NotFound("object", self.url(info.key), " (it was replaced); try again")

    def _expect_same(self, info: ObjectInfo) -> None:
        """Check that what is stored under the key is what was to be put there.

        Raises:
            ObjectExists: It is something else.
            NotFound: There is nothing any more.
        """
        stored = self.head(info.key)
        same = stored.size_bytes == info.size_bytes
        if same and stored.sha256 is None:
            with self.open(info.key) as stream:
                same = _sha256(stream) == info.sha256
        elif same:
            same = stored.sha256 == info.sha256
        if not same:
            raise ObjectExists(self.url(info.key))


def _text(digest: str | bytes) -> str:
    return digest.decode() if isinstance(digest, bytes) else digest


def _sha256(stream: BinaryIO) -> str:
    if stream.seekable():
        stream.seek(0)
    digest = hashlib.sha256()
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()


def checked_key(key: str) -> str:
    """The key, if every store can hold it.

    Raises:
        Invalid: It is absolute, too long, or has an empty, `.`, `..` or hidden temporary part or
            a control character.
    """
    if not key or len(key.encode("utf-8", "surrogatepass")) > KEY_BYTES_MAX:
        raise Invalid("object key", key, f"it must have 1 to {KEY_BYTES_MAX} bytes")
    if any(
        ord(char) < ord(" ") or char in "\\\x7f" or "\ud800" <= char <= "\udfff" for char in key
    ):
        raise Invalid("object key", key, "it must have no control characters and no backslash")
    for part in key.split("/"):
        if part in {"", ".", ".."} or is_temporary(part):
            raise Invalid(
                "object key", key, "it must be parts between single slashes, none of them . or .."
            )
    return key


def is_temporary(name: str) -> bool:
    """Whether a file name marks a local object that is still being written."""
    return name.startswith(".") and name.endswith(".part")


_REFUSED: Final = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
# Beside all from 500 on.
_WORTH_A_RETRY: Final = {
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS,
}


def from_status(status: int, detail: str, what: str) -> MeterlakeError:
    """Our error for an answer that is none of success.

    Args:
        status: The HTTP status.
        detail: What the store says.
        what: The URL of the object or bucket.
    """
    if status == HTTPStatus.NOT_FOUND:
        return NotFound("object or bucket", what)
    if status == HTTPStatus.PRECONDITION_FAILED:
        return ObjectExists(what)
    if status in _REFUSED:
        return Refused("object store", what, f"access is refused ({detail})")
    if status in _WORTH_A_RETRY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unavailable(what, f"{status} {detail}")
    return Invalid("object store", what, f"{status} {detail}")


class Translated(io.RawIOBase):
    """A stream whose foreign errors become ours, for sources that are read over a network."""

    def __init__(self, source: BinaryIO, errors: Translation, what: str) -> None:
        self._source = source
        self._errors = errors
        self._what = what

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        """Fill a buffer from the source."""
        with self._errors(self._what):
            data = self._source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the source too, which frees its connection."""
        if not self.closed:
            self._source.close()
        super().close()
