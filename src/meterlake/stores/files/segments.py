"""Segments: files to which submitted measurements are appended, durably, before the answer.

One measurement per line as it was received; an empty line closes each batch, and no JSON holds
one. A process appends to one open segment per organization, and holds a lock on it that dies with
the process. A segment is closed by a rename: from then on it is a source like any other, and never
changes. What a dead process left open is cut after its last whole batch first.

Beside the lakes lies a mark of each organization that may have segments which wait. So one look at
one folder finds them, however many organizations there are.

One thread of the process writes. Batches that arrive while it waits for the disk share the next
sync, so the more there is to do, the less each batch costs.
"""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from meterlake.model.errors import Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.settings import Settings
from meterlake.stores.files.durable import disk, make_folder, move, sync, write_durably
from meterlake.stores.files.segment_copies import Part, SegmentCopies

_log: Final = logging.getLogger("meterlake.segments")
_BATCH_END: Final = b"\n\n"
_RECEIVED: Final = "%Y%m%dT%H%M%S.%fZ"
_SUFFIX: Final = ".ndjson"
_MARKS: Final = ".waiting"
# How long a count of the bytes that wait is good for.
_COUNTED_S: Final = 0.25


@dataclass(frozen=True)
class SegmentFolder:
    """Where the segments of one organization lie, below the folder of its lake."""

    lake: Path

    @property
    def open(self) -> Path:
        """Segments to which a process appends, or appended until it died."""
        return self.lake / "segments" / "open"

    @property
    def closed(self) -> Path:
        """Segments that wait to be ingested; their names order them by when they were received."""
        return self.lake / "segments" / "closed"

    @property
    def lock(self) -> Path:
        """The lock of who ingests them."""
        return self.lake / "segments" / "ingest.lock"

    @property
    def mark(self) -> Path:
        """The file that says that there may be segments to be ingested, or open ones."""
        return self.lake.parent / _MARKS / self.lake.name

    def set_mark(self) -> None:
        """Say that there may be segments; to be called when there is one.

        It need not survive a loss of power: whoever ingests looks at all folders now and then.
        """
        try:
            self.mark.touch(0o600)
        except FileNotFoundError:
            self.mark.parent.mkdir(0o700, exist_ok=True)
            self.mark.touch(0o600)

    def clear_mark(self) -> None:
        """Take the mark away if there are no segments.

        What comes at the same time keeps its mark: either it is set after it was removed, or the
        segment is found by the second look.
        """
        if self.has_segments():
            return
        self.mark.unlink(missing_ok=True)
        if self.has_segments():
            self.set_mark()

    def has_segments(self) -> bool:
        """Whether there are segments, open or closed."""
        # Open ones first: one that is closed meanwhile is found among the closed ones.
        return any(map(_has_entries, (self.open, self.closed)))

    def kept_path(self, segment: Path) -> Path:
        """Where a segment goes that was ingested: with the sources of its day."""
        day = received_at(segment).date().isoformat()
        return self.lake / "sources" / day / segment.name

    def waiting(self) -> list[Path]:
        """The closed segments, in the order in which they were received."""
        with disk(), suppress(FileNotFoundError):
            return sorted(self.closed.glob(f"*{_SUFFIX}"))
        return []

    def waiting_bytes(self) -> int:
        """How many bytes the segments hold that are not ingested, open ones of all processes too."""
        total = 0
        # Open ones first: what is closed meanwhile is counted twice rather than not at all.
        for path in [*self.open.glob(f"*{_SUFFIX}"), *self.waiting()]:
            with suppress(FileNotFoundError):  # Closed or ingested meanwhile.
                total += path.stat().st_size
        return total


def _has_entries(folder: Path) -> bool:
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        return any(True for _ in entries)
    return False


def marked_lakes(lakes: Path) -> list[str]:
    """The names of the lakes that may have segments to be ingested.

    Args:
        lakes: The folder of all lakes.
    """
    with disk(), suppress(FileNotFoundError):
        return [each.name for each in (lakes / _MARKS).iterdir()]
    return []


def mark_lakes(lakes: Path) -> None:
    """Mark the lakes that have segments, whoever left them without a mark."""
    with disk(), suppress(FileNotFoundError), os.scandir(lakes) as entries:
        for entry in entries:
            folder = SegmentFolder(lakes / entry.name)
            if folder.has_segments():
                folder.set_mark()


def received_at(segment: Path) -> datetime:
    """When the last batch of a closed segment was received."""
    stamp = segment.name.partition("-")[0]
    return datetime.strptime(stamp, _RECEIVED).replace(tzinfo=UTC)


def original_name(segment: Path) -> str:
    """The name that a closed segment had while it was open."""
    return segment.name.partition("-")[2]


def add_closed(folder: SegmentFolder, name: str, data: bytes, received: datetime) -> None:
    """Add a closed segment that was open on another machine; nothing changes if it is there.

    Raises:
        Unavailable: The disk failed.
    """
    with write_durably(folder.closed / f"{received.strftime(_RECEIVED)}-{name}") as temporary:
        temporary.write_bytes(data)
    make_folder(folder.open)
    with disk():
        folder.set_mark()


def recover(folder: SegmentFolder) -> None:
    """Close what dead processes left open, cut after the last whole batch of each.

    Raises:
        Unavailable: The disk failed.
    """
    with disk():
        found = sorted(folder.open.glob(f"*{_SUFFIX}")) if folder.open.exists() else []
        for path in found:
            with suppress(FileNotFoundError):  # Its owner closed it.
                _recover(folder, path)


def _recover(folder: SegmentFolder, path: Path) -> None:
    handle = os.open(path, os.O_RDWR)
    try:
        if not _is_owned(handle, path):
            return
        written = os.fstat(handle)
        end = whole_bytes(path.read_bytes())
        mark_step("segments.recovering")
        if end == 0:
            path.unlink()
            mark_step("segments.dropped")
            sync(folder.open)
            return
        os.ftruncate(handle, end)
        # The time of the last write is when it was received; whoever cuts again must find it.
        os.utime(handle, ns=(written.st_atime_ns, written.st_mtime_ns))
        mark_step("segments.cut")
        os.fsync(handle)
        mark_step("segments.cut_synced")
        _close(folder, path, datetime.fromtimestamp(written.st_mtime, UTC))
    finally:
        os.close(handle)


def whole_bytes(data: bytes) -> int:
    """How many bytes of an open segment are whole batches.

    After a loss of power zeros may stand where a batch was never synced: nothing counts from the
    first of them on, nor from the first byte that is no UTF-8.
    """
    zero = data.find(b"\x00")
    end = len(data) if zero < 0 else zero
    if not data.isascii():
        try:
            data[:end].decode()
        except UnicodeDecodeError as error:
            end = error.start
    last = data.rfind(_BATCH_END, 0, end)
    return 0 if last < 0 else last + len(_BATCH_END)


def _is_owned(handle: int, path: Path) -> bool:
    """Whether the lock of the file is ours now, and the file still has this name."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return os.fstat(handle).st_ino == path.stat().st_ino


def _close(folder: SegmentFolder, path: Path, received: datetime) -> None:
    name = f"{received.strftime(_RECEIVED)}-{path.name}"
    make_folder(folder.closed)
    mark_step("segments.closing")
    move(path, folder.closed / name)
    mark_step("segments.closed")


@dataclass
class _Segment:
    """The open segment of an organization; `size` counts the bytes that are on the disk."""

    folder: SegmentFolder
    path: Path
    handle: int
    opened: float
    received: datetime
    size: int = 0
    writes: int = 0

    def append(self, data: bytes, received: datetime) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.handle, rest) :]
        mark_step("segments.written")
        os.fsync(self.handle)
        self.size += len(data)
        self.writes += 1
        self.received = received
        mark_step("segments.synced")

    def close(self) -> None:
        try:
            _close(self.folder, self.path, self.received)
        finally:
            os.close(self.handle)

    def abandon(self) -> None:
        """Leave it to the recovery, without what was not acknowledged if that can be done."""
        with suppress(OSError):
            os.ftruncate(self.handle, self.size)
            os.fsync(self.handle)
        with suppress(OSError):
            os.close(self.handle)


@dataclass(frozen=True, slots=True)
class _Batch:
    org_id: str
    data: bytes
    done: Future[None] = field(default_factory=Future)


class Segments:
    """The open segments of this process, by organization.

    Args:
        lake_folder: Gives the folder of an organization's lake.
        settings: When segments are closed, and how many bytes may wait.
        now: The clock.
        copies: Gives where each write has a copy before the answer, if the disk is not enough.
    """

    def __init__(
        self,
        lake_folder: Callable[[str], Path],
        settings: Settings,
        now: Callable[[], datetime],
        copies: Callable[[], SegmentCopies | None] = lambda: None,
    ) -> None:
        self._lake_folder = lake_folder
        self._settings = settings
        self._now = now
        self._copies = copies
        process = uuid4().hex[:12]
        self._names = (f"{process}-{number:08}{_SUFFIX}" for number in count(1))
        self._wake = threading.Condition()
        self._waiting: list[_Batch] = []
        self._stopping = False
        self._thread: threading.Thread | None = None
        # Only the thread that writes looks at it.
        self._open: dict[str, _Segment] = {}
        self._counted: dict[str, tuple[float, int]] = {}

    def append(self, org_id: str, measurements: Iterable[bytes | msgspec.Raw]) -> Future[None]:
        """Append a batch; its future is done when the batch is on the disk.

        The future fails with `Unavailable` if the disk does; the batch may be stored even so.

        Args:
            org_id: The organization.
            measurements: One JSON object each, without line breaks.

        Raises:
            Unavailable: The process is about to stop.
        """
        batch = _Batch(org_id, b"\n".join(measurements) + _BATCH_END)
        batch.done.set_running_or_notify_cancel()
        with self._wake:
            if self._stopping:
                raise Unavailable("ingest", "the server stops", "send it again when it is back")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_segments, name="segments", daemon=True
                )
                self._thread.start()
            self._waiting.append(batch)
            self._wake.notify()
        counted, found = self._counted.get(org_id, (0.0, 0))
        self._counted[org_id] = counted, found + len(batch.data)
        return batch.done

    def full(self, org_id: str) -> bool:
        """Whether more waits to be ingested than the settings allow.

        What this process took in is counted at once; of others, what they wrote until a quarter of
        a second ago.
        """
        counted, found = self._counted.get(org_id, (0.0, 0))
        if not counted or time.monotonic() - counted > _COUNTED_S:
            with self._wake:
                unwritten = sum(len(each.data) for each in self._waiting if each.org_id == org_id)
            with disk():
                found = SegmentFolder(self._lake_folder(org_id)).waiting_bytes() + unwritten
            self._counted[org_id] = time.monotonic(), found
        return found > self._settings.segment_backlog

    def close(self) -> None:
        """Write what waits and close all segments; nothing can be appended any more."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def _write_segments(self) -> None:
        stopping = False
        while not stopping:
            batches, stopping = self._next()
            by_organization: dict[str, list[_Batch]] = {}
            for batch in batches:
                by_organization.setdefault(batch.org_id, []).append(batch)
            self._answer(by_organization)
            now, settings = time.monotonic(), self._settings
            for org_id, segment in list(self._open.items()):
                old = now - segment.opened >= settings.segment_seconds
                if stopping or old or segment.size >= settings.segment_bytes:
                    del self._open[org_id]
                    try:
                        segment.close()
                    except Exception:  # noqa: BLE001 - it is logged, and the thread must live
                        # Its lock is free now: the recovery closes it. Others must not wait for it.
                        _log.exception("the segment %s was not closed", segment.path.name)

    def _next(self) -> tuple[list[_Batch], bool]:
        with self._wake:
            self._wake.wait_for(lambda: self._waiting or self._stopping, self._rest())
            batches, self._waiting = self._waiting, []
            return batches, self._stopping

    def _rest(self) -> float | None:
        """The seconds until the next segment is old enough to be closed."""
        if not self._open:
            return None
        oldest = min(segment.opened for segment in self._open.values())
        return max(0.0, oldest + self._settings.segment_seconds - time.monotonic())

    def _answer(self, groups: dict[str, list[_Batch]]) -> None:
        """Write the batches of each organization, and say of each what became of it."""
        received, writes = self._now(), dict[str, tuple[Part, bytes]]()
        failed: dict[str, Exception | None] = {}
        for org_id, group in groups.items():
            data = b"".join(batch.data for batch in group)
            try:
                writes[org_id] = self._write(org_id, data, received), data
            except Exception as error:  # noqa: BLE001 - who waits for it has to hear of it
                failed[org_id] = error
        failed |= self._copy(dict(writes.values()), received)
        for org_id, group in groups.items():
            self._tell(org_id, group, failed.get(org_id))

    def _copy(self, parts: dict[Part, bytes], received: datetime) -> dict[str, Exception | None]:
        try:
            copies = self._copies()
            found = {} if copies is None else copies.put(parts, received)
        except Exception as error:  # noqa: BLE001 - who waits for it has to hear of it
            found = dict.fromkeys(parts, error)
        return {part.org_id: error for part, error in found.items()}

    def _tell(self, org_id: str, group: list[_Batch], error: Exception | None) -> None:
        if error is None:
            for batch in group:
                batch.done.set_result(None)
            return
        segment = self._open.pop(org_id, None)
        if segment is not None:
            segment.abandon()
        for batch in group:
            batch.done.set_exception(error)

    @disk()
    def _write(self, org_id: str, data: bytes, received: datetime) -> Part:
        segment = self._open.get(org_id)
        if segment is None:
            segment = self._open[org_id] = self._new(org_id)
        segment.append(data, received)
        return Part(org_id, segment.path.name, segment.writes)

    def _new(self, org_id: str) -> _Segment:
        folder = SegmentFolder(self._lake_folder(org_id))
        make_folder(folder.open)
        while True:
            path = folder.open / next(self._names)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            mark_step("segments.created")
            with suppress(FileNotFoundError):
                if _is_owned(handle, path):
                    break
            # A recovery took the file before its lock was ours.
            os.close(handle)
        try:
            sync(folder.open)
            mark_step("segments.created_synced")
            folder.set_mark()
        except BaseException:
            os.close(handle)
            raise
        return _Segment(folder, path, handle, time.monotonic(), self._now())
