"""The drop folder: `inbox` → claimed by a rename → committed → `done` or `failed` with a report.

One process works a drop folder at a time (a lock that dies with it), so whatever lies in
`claimed` when it starts was left there by a process that died, and is finished first.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

from meterlake.model.errors import Busy, Unavailable
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.ingest.drop_folder import DropFolder, resting_files
from meterlake.pipeline.ingest.files import claiming, folder_mappings
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.jobs.fair_turns import rest
from meterlake.pipeline.jobs.progress import Progress, untold
from meterlake.stores import Organization, Stores
from meterlake.stores.files.durable import disk, make_folder, move, write_durably
from meterlake.stores.files.folders import file_name, is_own_file
from meterlake.stores.files.locks import hold_lock

_RECEIVED: Final = "%Y%m%dT%H%M%S.%fZ"
_CLAIM: Final = re.compile(r"[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[0-9a-f]{12}")
_NAME_MAX: Final = 200


def ingest_inbox(
    organization: Organization,
    folder: DropFolder,
    settle_seconds: int | None = None,
    progress: Progress = untold,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Receipt]:
    """Ingest what a drop folder holds, file by file; first what a dead process left claimed.

    Args:
        organization: The organization.
        folder: Its drop folder.
        settle_seconds: How long a file must have rested; the setting when None.
        progress: Told how far the file is read, block by block.
        stop: Asked before each file.

    Raises:
        Busy: Another process works the drop folder.
        Unavailable: The disk or the lake failed.
    """
    folder.create()
    seconds = organization.settings.settle_seconds if settle_seconds is None else settle_seconds
    busy = Busy("drop folder", f"another process works {folder.root}; try again later")
    with disk(), hold_lock(folder.root / "drop.lock", busy):
        mappings = folder_mappings(folder.mappings)
        for claim in _claims(organization.stores, folder, seconds, stop):
            yield from _finish_claim(organization, folder, claim, mappings, progress)


def watch(
    organization: Organization,
    folder: DropFolder,
    stop: Callable[[], bool],
    poll_seconds: float = 1.0,
) -> Iterator[Receipt]:
    """Ingest what is dropped until `stop` says so.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    while not stop():
        with suppress(Busy):  # Another process does the work.
            yield from ingest_inbox(organization, folder, stop=stop)
        rest(poll_seconds, stop)


def _claims(
    stores: Stores, folder: DropFolder, rest_seconds: int, stop: Callable[[], bool]
) -> Iterator[Path]:
    """What a dead process left claimed, then each file of the inbox, claimed when it is asked for."""
    for claim in filter(_is_claim, sorted(folder.claimed.iterdir())):
        if stop():
            return
        yield claim
    for path in resting_files(folder.inbox, rest_seconds):
        if stop():
            return
        yield _claim(folder, path, stores.now())


def _claim(folder: DropFolder, path: Path, now: datetime) -> Path:
    """Move a file into a claim folder of its own, whose name holds when it was received."""
    claim = folder.claimed / f"{now.strftime(_RECEIVED)}-{uuid4().hex[:12]}"
    make_folder(claim)
    mark_step("drop.claim_made")
    try:
        # Under a name that is text: not every library opens others.
        move(path, claim / file_name(path))
    except Unavailable:
        if path.exists():
            raise
        # Whoever dropped it took it back: the claim stays empty, and is discarded.
    mark_step("drop.claimed")
    return claim


def _is_claim(path: Path) -> bool:
    """Whether the folder was made by `_claim`; what else lies there is left alone."""
    return path.is_dir() and _CLAIM.fullmatch(path.name) is not None


def _finish_claim(
    organization: Organization,
    folder: DropFolder,
    claim: Path,
    mappings: list[Mapping],
    progress: Progress,
) -> Iterator[Receipt]:
    # Beside the file there is at most its report.
    files = [path for path in claim.iterdir() if path.name[0] != "." and is_own_file(path)]
    reports = {_report_path(path) for path in files}
    path = next((path for path in files if path not in reports), None)
    if path is None:
        # The claimer died before it moved the file.
        for left in claim.iterdir():
            left.unlink()
        claim.rmdir()
        return
    received = datetime.strptime(claim.name.partition("-")[0], _RECEIVED).replace(tzinfo=UTC)
    delivery = Delivery(claim.name, path.name, received)
    mapping = claiming(mappings, path.name)
    receipt = ingest_file(organization, path, delivery, mapping, progress)
    mark_step("drop.ingested")
    _report(path, receipt)
    mark_step("drop.reported")
    move(claim, (folder.done if receipt.status == "done" else folder.failed) / claim.name)
    mark_step("drop.archived")
    yield receipt


def _report(path: Path, receipt: Receipt) -> None:
    for left in path.parent.glob(".*.part"):
        left.unlink()  # Of a process that died here.
    with write_durably(_report_path(path)) as temporary:
        temporary.write_bytes(wire.dumps_pretty(receipt.to_wire()))


def _report_path(path: Path) -> Path:
    # A file's name may be as long as the system allows; the report's would be longer.
    return path.with_name(path.name.encode()[:_NAME_MAX].decode("utf-8", "ignore") + ".report.json")
