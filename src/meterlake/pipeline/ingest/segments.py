"""What was submitted, from its closed segments into the lake: in order, each exactly once."""

import logging
import time
from collections.abc import Callable
from typing import Final

from meterlake.model.errors import Busy, Unavailable
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import disk, move
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.files.segment_copies import CopiedSegment, SegmentCopies
from meterlake.stores.files.segments import add_closed, original_name, received_at, recover

_log: Final = logging.getLogger("meterlake.worker")


def ingest_segments(
    organization: Organization, stop: Callable[[], bool] = lambda: False
) -> list[Receipt]:
    """Ingest the closed segments of an organization; first close what dead processes left open.

    Args:
        organization: The organization.
        stop: Asked between two segments.

    Raises:
        Busy: Another process does so at the moment.
        Unavailable: The disk or the lake failed.
    """
    folder = organization.segment_folder
    if not folder.open.exists():
        with disk():
            folder.clear_mark()
        return []  # Nothing was ever submitted.
    receipts: list[Receipt] = []
    busy = Busy("segments", f"another process ingests those of {organization.id}; try again later")
    with hold_lock(folder.lock, busy):
        recover(folder)
        for path in folder.waiting():
            if stop():
                break
            delivery = Delivery(path.stem, path.name, received_at(path), own=True)
            receipt = ingest_file(organization, path, delivery)
            mark_step("segments.ingested")
            receipts.append(receipt)
            move(path, folder.kept_path(path))
            mark_step("segments.kept")
            if organization.stores.segment_copies is not None:
                organization.stores.segment_copies.drop(organization.id, original_name(path))
        with disk():
            folder.clear_mark()
    return receipts


class LostSegments:
    """Segments whose machine is lost: their copies do not change for a while.

    How long that is, this process's own clock says: the clocks of machines differ.

    Args:
        stores: The home's stores.
        clock: Seconds that only grow.
    """

    def __init__(self, stores: Stores, clock: Callable[[], float] = time.monotonic) -> None:
        self._stores = stores
        self._clock = clock
        self._seen: dict[CopiedSegment, float] = {}

    def look(self) -> int:
        """Take over what has not changed for long; the number of segments that wait now.

        They are closed segments of this machine from then on, and ingested as these are.

        Raises:
            Unavailable: The store, the network or the disk failed.
        """
        copies = self._stores.segment_copies
        if copies is None:
            return 0
        now, found = self._clock(), set(copies.segments())
        self._seen = {each: self._seen.get(each, now) for each in found}
        seconds = self._stores.settings.segment_lost_seconds
        lost = [each for each, since in self._seen.items() if now - since >= seconds]
        taken, failure = 0, None
        for each in lost:
            try:
                taken += self._take_over(copies, each)
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - raised when all others are taken over
                _log.exception("segment %s of organization %s", each.name, each.org_id)
                failure = Unavailable(
                    f"segment {each.name}",
                    f"{type(error).__name__}: {error}",
                    "it is tried again by itself",
                )
        if failure is not None:
            raise failure
        return taken

    def _take_over(self, copies: SegmentCopies, segment: CopiedSegment) -> bool:
        taken = copies.take_over(segment)
        del self._seen[segment]
        if taken is None:
            return False
        data, received = taken
        if not data:
            copies.drop(segment.org_id, segment.name)
            return False
        folder = self._stores.segment_folder(segment.org_id)
        add_closed(folder, segment.name, data, received)
        mark_step("segments.taken_over")
        return True
