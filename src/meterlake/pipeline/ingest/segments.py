"""What was submitted, from its closed segments into the lake: in order, each exactly once."""

from collections.abc import Callable
from pathlib import Path

from meterlake.model.errors import Busy
from meterlake.model.failpoint import mark_step
from meterlake.model.receipt import Delivery, Receipt
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.stores import Stores
from meterlake.stores.files.durable import move
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.files.segments import received_at, recover


def ingest_segments(
    stores: Stores, org_id: str, stop: Callable[[], bool] = lambda: False
) -> list[Receipt]:
    """Ingest the closed segments of an organization; first close what dead processes left open.

    Args:
        stores: The home's stores.
        org_id: The organization.
        stop: Asked between two segments.

    Raises:
        Busy: Another process does so at the moment.
        Unavailable: The disk or the lake failed.
    """
    folder = stores.segment_folder(org_id)
    if not folder.open.exists():
        return []  # Nothing was ever submitted.
    receipts: list[Receipt] = []
    busy = Busy("segments", f"another process ingests those of {org_id}")
    with hold_lock(folder.lock, busy):
        recover(folder)
        for path in folder.waiting():
            if stop():
                break
            receipts.append(_ingest_segment(stores, org_id, path))
            move(path, folder.kept_path(path))
            mark_step("segments.kept")
    return receipts


def _ingest_segment(stores: Stores, org_id: str, path: Path) -> Receipt:
    delivery = Delivery(path.stem, path.name, received_at(path), own=True)
    receipt = ingest_file(stores, org_id, path, delivery)
    mark_step("segments.ingested")
    return receipt
