"""The files of a lake, copied to another place, each of them read back."""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meterlake.model.errors import CannotMove, NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.stores.files.durable import make_folder
from meterlake.stores.objects.base import ObjectStore

_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file that is in both places.

    Attributes:
        sent: Whether it was not there before.
    """

    key: str
    size_bytes: int
    sha256: str
    sent: bool


class FileCopies:
    """Copies the files of one lake, and knows which ones it has read back.

    Args:
        source: Where they are.
        target: Where they go.
        scratch: A folder of this machine for what is on its way between two buckets.
        threads: How many files are on their way at once.
    """

    def __init__(
        self, source: ObjectStore, target: ObjectStore, scratch: Path, threads: int
    ) -> None:
        self._source = source
        self._target = target
        self._scratch = scratch
        self._threads = threads
        self.done: dict[str, FileCopy] = {}

    def copy(self, files: Mapping[str, int | None], *, may_vanish: bool) -> None:
        """Copy files that were not copied yet; what is there with the same bytes is not sent.

        Args:
            files: Their sizes as the catalog knows them, by their paths; None of replaced ones,
                which may be gone.
            may_vanish: Whether upkeep may remove files meanwhile.

        Raises:
            CannotMove: A file is missing, or is not what the catalog says, or did not arrive whole.
            Unavailable: A store or the network failed.
        """
        left = [(key, size) for key, size in files.items() if key not in self.done]
        with ThreadPoolExecutor(self._threads) as pool:
            for copied in pool.map(lambda each: self._copy(*each, may_vanish=may_vanish), left):
                if copied is not None:
                    self.done[copied.key] = copied

    def check(self, files: Iterable[str]) -> None:
        """Compare the sizes of all files with what was read back.

        Raises:
            CannotMove: One has another size by now, or is gone.
        """
        sizes = {each.key: each.size_bytes for each in self._target.list()}
        for key in files:
            known = self.done.get(key)
            if known is not None and sizes.get(key) != known.size_bytes:
                raise CannotMove(
                    f"{self._target.url(key)} is not there as it was copied;"
                    " keep others from writing there, and move to another place"
                )

    def _copy(self, key: str, size: int | None, *, may_vanish: bool) -> FileCopy | None:
        try:
            with self._local_file(key) as path:
                found, digest = path.stat().st_size, _digest_file(path)
                if size is not None and found != size:
                    known = f"{found:,} bytes, and {size:,} by the catalog; restore the file from a backup"
                    raise CannotMove(f"{self._source.url(key)} has {known}")
                sent = not self._is_there(key, found, digest)
                if sent:
                    try:
                        self._target.put_file(key, path, sha256=digest)
                    except NotFound as error:
                        # It is the bucket that is missing, and not the file.
                        raise CannotMove(str(error)) from error
                    mark_step("move.file_sent")
                    if not self._is_there(key, found, digest):
                        raise CannotMove(
                            f"{self._target.url(key)} did not arrive as it was sent; run it again"
                        )
                return FileCopy(key, found, digest, sent)
        except NotFound:
            if size is None or may_vanish:
                return None
            raise CannotMove(
                f"{self._source.url(key)} is missing; restore it from a backup"
            ) from None

    @contextmanager
    def _local_file(self, key: str) -> Iterator[Path]:
        """The file on this machine; the store's own checksum is compared on its way here."""
        info = self._source.head(key)
        path = self._source.path(key)
        if path is not None:
            yield path
            return
        make_folder(self._scratch)
        with tempfile.TemporaryDirectory(prefix="move-", dir=self._scratch) as folder:
            path = Path(folder, "file")
            self._source.fetch(info, path)
            if info.sha256 is not None and _digest_file(path) != info.sha256:
                raise CannotMove(
                    f"{self._source.url(key)} does not fit its checksum;"
                    " run it again, and restore the file from a backup if that does not help"
                )
            yield path

    def _is_there(self, key: str, size: int, digest: str) -> bool:
        """Whether the target has these bytes: they are read back."""
        try:
            if self._target.head(key).size_bytes != size:
                return False
            with self._target.open(key) as stream:
                return _digest(iter(lambda: stream.read(_BLOCK), b"")) == digest
        except NotFound:
            return False


def _digest_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(blocks: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()
