"""Copies of segments in the object store: what was acknowledged outlives the machine that did.

Each write of a segment is an object of its own, a part, that is put before the answer. When the
segment was ingested, its parts go. Parts that stay unchanged for long belong to a machine that is
lost, or slow: whoever takes them over puts an end behind the last one first. A part and the end
cannot both have the next number, so nothing is acknowledged that the one who took over does not
see. A machine that was only slow ingests the same bytes again, which changes nothing.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final, NamedTuple

from meterlake.model.errors import ObjectExists, Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.stores.objects.base import ObjectInfo, ObjectStore

# Of a key: the prefix, organization, segment and part.
_LEVELS: Final = 4
_PREFIX: Final = "segments"
_RECEIVED: Final = "%Y%m%dT%H%M%S.%fZ"
_END: Final = b"end\n"
_AT_ONCE: Final = 8


class CopiedSegment(NamedTuple):
    """A segment that has parts: whose it is, its name, and how many objects there are."""

    org_id: str
    name: str
    objects: int


class Part(NamedTuple):
    """One write: whose, of which segment, the how many-th, counted from 1."""

    org_id: str
    segment: str
    number: int

    @property
    def key(self) -> str:
        """Its key in the store."""
        return f"{_PREFIX}/{self.org_id}/{self.segment}/{self.number:08}"


class SegmentCopies:
    """The parts of all segments below one prefix of an object store."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="segment copies")

    def put(self, parts: dict[Part, bytes], received: datetime) -> dict[Part, Exception | None]:
        """Put the next parts of several segments at once; why each one failed, or None.

        Args:
            parts: At most one of each segment: one more begins when all before it are there.
            received: When they were received.
        """
        header = received.astimezone(UTC).strftime(_RECEIVED).encode() + b"\n"
        puts = {
            part: self._pool.submit(self._put, part, header + data) for part, data in parts.items()
        }
        return {part: put.exception() for part, put in puts.items()}  # type: ignore[misc]

    def _put(self, part: Part, data: bytes) -> None:
        try:
            self._objects.put_bytes(part.key, data, create_only=True)
        except ObjectExists:
            raise Unavailable("segment", "another machine took it over", "send it again") from None
        mark_step("segments.copied")

    def segments(self) -> Iterator[CopiedSegment]:
        """The segments that have parts, in the order of their keys."""
        org_id, name, objects = "", "", 0
        for info in self._objects.list(f"{_PREFIX}/"):
            parts = info.key.split("/")
            if len(parts) != _LEVELS:
                continue  # Somebody else put it there.
            _, found_org, found, _ = parts
            if (found_org, found) != (org_id, name):
                if objects:
                    yield CopiedSegment(org_id, name, objects)
                org_id, name, objects = found_org, found, 0
            objects += 1
        if objects:
            yield CopiedSegment(org_id, name, objects)

    def take_over(self, segment: CopiedSegment) -> tuple[bytes, datetime] | None:
        """End a segment of a lost machine; its bytes, and when the last of them were received.

        None if there is none any more, or if its machine is alive and wrote one more part.

        Raises:
            Unavailable: The store or the network failed.
        """
        found = self._parts(segment)
        if not found:
            return None
        contents = [self._objects.get(info.key) for info in found]
        if contents[-1] == _END:
            contents.pop()
        else:
            end = Part(segment.org_id, segment.name, len(found) + 1)
            try:
                self._objects.put_bytes(end.key, _END, create_only=True)
            except ObjectExists:
                return None
            mark_step("segments.ended")
        splits = [content.split(b"\n", 1) for content in contents]
        if not splits:
            return b"", datetime.min.replace(tzinfo=UTC)
        received = datetime.strptime(splits[-1][0].decode(), _RECEIVED).replace(tzinfo=UTC)
        return b"".join(data for _, data in splits), received

    def drop(self, org_id: str, name: str) -> None:
        """Remove the parts of a segment that was ingested, the end last.

        Raises:
            Unavailable: The store or the network failed; what is left is removed the next time.
        """
        for info in self._parts(CopiedSegment(org_id, name, 0)):
            self._objects.delete(info.key)
            mark_step("segments.copy_removed")

    def _parts(self, segment: CopiedSegment) -> list[ObjectInfo]:
        return list(self._objects.list(f"{_PREFIX}/{segment.org_id}/{segment.name}/"))

    def close(self) -> None:
        """End its threads."""
        self._pool.shutdown()
