"""The worker: the one long-lived process that ingests what comes in, for all organizations.

Threads with stores of their own, so that what is submitted never waits for a large file: one works
the drop folders, one the closed segments, one the uploads and the files of lookup tables, one the
bucket inboxes, one the exports that wait. One looks which exports are due, however long those take
that run. One more tells what went wrong with sources, if whoever ingested them did not come to it,
looks for alerts, and removes what was kept for its download long enough.

`python -m meterlake.pipeline.worker` runs it; `meterlake serve` starts it as a child. Drop folders
and segments are ingested directly, without Prefect: a round that finds nothing costs a look at a
few folders. An upload, what waits in inboxes, and an export are jobs: flow runs while a Prefect
server answers.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final

from meterlake.model import wire
from meterlake.model.errors import Busy, MeterlakeError
from meterlake.model.receipt import Receipt
from meterlake.model.uploads import JobKind
from meterlake.pipeline.alerts import check_alerts
from meterlake.pipeline.children import end_with_parent
from meterlake.pipeline.drop import ingest_inbox
from meterlake.pipeline.drop_folder import DropFolder, drop_folder, left_alone
from meterlake.pipeline.executor import Executor
from meterlake.pipeline.export_jobs import forget_downloads
from meterlake.pipeline.export_round import export_round
from meterlake.pipeline.export_schedules import submit_due
from meterlake.pipeline.inbox import inboxes_wait, poll_inboxes
from meterlake.pipeline.reporting import report
from meterlake.pipeline.segments import ingest_segments
from meterlake.pipeline.uploads import ingest_uploads, run_directly
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from meterlake.stores.state.uploads import Upload

POLL_S: Final = 1.0
# A measurement can be queried within seconds of its answer.
SEGMENTS_POLL_S: Final = 0.25
ALERTS_POLL_S: Final = 60.0
_PAUSE_S: Final = 10.0
Ingest = Callable[[Stores, str, Callable[[], bool]], Iterable[Receipt]]
_log: Final = logging.getLogger("meterlake.worker")


def work(stores: Stores, stop: Callable[[], bool], poll_seconds: float = POLL_S) -> None:
    """Ingest what is dropped until `stop` says so; the file at hand is finished first.

    A failing world (a full disk, a locked catalog) is logged and tried again, more slowly.
    """
    told: set[Path] = set()
    _repeat(lambda: _round(stores, stop, told), stop, poll_seconds)


def work_segments(
    stores: Stores, stop: Callable[[], bool], poll_seconds: float = SEGMENTS_POLL_S
) -> None:
    """Ingest what is submitted until `stop` says so; the segment at hand is finished first."""
    _repeat(lambda: _each_organization(stores, ingest_segments, stop), stop, poll_seconds)


def work_uploads(stores: Stores, stop: Callable[[], bool], poll_seconds: float = POLL_S) -> None:
    """Ingest what is uploaded until `stop` says so; the file at hand is finished first."""
    ingest = partial(_uploads, Executor(stores.settings, stop))
    _repeat(lambda: _each_organization(stores, ingest, stop), stop, poll_seconds)


def work_inboxes(
    stores: Stores, stop: Callable[[], bool], poll_seconds: float | None = None
) -> None:
    """Ingest what lies in bucket inboxes until `stop` says so; the object at hand is finished."""
    seconds = stores.settings.inbox_seconds if poll_seconds is None else poll_seconds
    ingest = partial(_inboxes, Executor(stores.settings, stop))
    _repeat(lambda: _each_organization(stores, ingest, stop), stop, seconds)


def work_exports(stores: Stores, stop: Callable[[], bool], poll_seconds: float = POLL_S) -> None:
    """Run the exports that wait until `stop` says so; the job at hand is finished."""
    export = partial(export_round, Executor(stores.settings, stop))
    _repeat(lambda: _each_organization(stores, export, stop), stop, poll_seconds)


def work_schedules(stores: Stores, stop: Callable[[], bool], poll_seconds: float = POLL_S) -> None:
    """Make the jobs of exports that are due until `stop` says so; others run them."""
    _repeat(lambda: _each_organization(stores, _due, stop), stop, poll_seconds)


def work_alerts(
    stores: Stores, stop: Callable[[], bool], poll_seconds: float = ALERTS_POLL_S
) -> None:
    """Report what was not reported yet, look for what is not as it should be, and tidy up."""
    _repeat(lambda: _each_organization(stores, _alerts, stop), stop, poll_seconds)


def _repeat(
    one_round: Callable[[], Iterable[Receipt]], stop: Callable[[], bool], poll_seconds: float
) -> None:
    while not stop():
        pause = poll_seconds
        try:
            for receipt in one_round():
                _log.info(wire.dumps(receipt.to_wire()).decode())
        except MeterlakeError as error:
            _log.warning("%s: %s", type(error).__name__, error)
            pause = _PAUSE_S
        _rest(pause, stop)


def _round(stores: Stores, stop: Callable[[], bool], told: set[Path]) -> Iterator[Receipt]:
    for organization in stores.state.organizations():
        folder = drop_folder(stores, organization.code)
        _tell_left_alone(folder, told)
        with suppress(Busy):  # Another process works it.
            for receipt in ingest_inbox(stores, organization.id, folder):
                yield receipt
                if stop():
                    return


def _tell_left_alone(folder: DropFolder, told: set[Path]) -> None:
    found = {folder.inbox / name for name in left_alone(folder.inbox)}
    for path in sorted(found - told):
        _log.warning("%s is left alone: it is no file", path)
    told |= found


def _each_organization(
    stores: Stores, ingest: Ingest, stop: Callable[[], bool]
) -> Iterator[Receipt]:
    failed: MeterlakeError | None = None
    for organization in stores.state.organizations():
        try:
            yield from ingest(stores, organization.id, stop)
        except Busy:
            continue  # Another process ingests them.
        except MeterlakeError as error:
            failed = error  # Only of this organization: the others do not wait for it.
    if failed is not None:
        raise failed


def _uploads(
    executor: Executor, stores: Stores, org_id: str, stop: Callable[[], bool]
) -> Iterable[Receipt]:
    def run(upload: Upload) -> Iterable[Receipt]:
        if upload.kind is JobKind.LOOKUP:
            # Done sooner than a flow's process has started.
            return run_directly(stores, upload)
        parameters = {"org": org_id, "job": upload.id, "name": upload.name}
        return executor.run("upload", parameters, partial(run_directly, stores, upload))

    return ingest_uploads(stores, org_id, stop, run)


def _inboxes(
    executor: Executor, stores: Stores, org_id: str, stop: Callable[[], bool]
) -> Iterable[Receipt]:
    if not inboxes_wait(stores, org_id):
        return ()
    verb = partial(poll_inboxes, stores, org_id, stop)
    return executor.run("inbox", {"org": [org_id]}, verb)


def _due(stores: Stores, org_id: str, stop: Callable[[], bool]) -> Iterable[Receipt]:
    if not stop():
        submit_due(stores, org_id)
    return ()


def _alerts(stores: Stores, org_id: str, stop: Callable[[], bool]) -> Iterable[Receipt]:
    if not stop():
        report(stores, org_id)
        check_alerts(stores, org_id)
        forget_downloads(stores, org_id)
    return ()


def _rest(seconds: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stop() and time.monotonic() < end:
        time.sleep(0.1)


# What is worked beside the drop folders, each in a thread with stores of its own.
_BESIDE: Final = (
    work_segments,
    work_uploads,
    work_inboxes,
    work_schedules,
    work_exports,
    work_alerts,
)


def main() -> None:
    """Run the worker of the home of METERLAKE_HOME until SIGTERM, or until the parent ends."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    asked: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: asked.append(number))
    if os.environ.get("METERLAKE_CHILD"):
        end_with_parent()
    settings = Settings()
    with ExitStack() as opened:
        stores = opened.enter_context(open_stores(settings))
        theirs = [opened.enter_context(open_stores(settings)) for _ in _BESIDE]
        pool = opened.enter_context(ThreadPoolExecutor(len(_BESIDE), thread_name_prefix="worker"))
        others = [
            pool.submit(each, own, lambda: bool(asked))
            for each, own in zip(_BESIDE, theirs, strict=True)
        ]
        try:
            work(stores, lambda: bool(asked) or any(each.done() for each in others))
        finally:
            asked.append(0)
        for other in others:
            other.result()


if __name__ == "__main__":
    main()
