"""The worker: the one long-lived process that ingests what comes in, for all organizations.

Two threads with stores of their own, so that what is submitted never waits for a large file: one
works the drop folders, the other one the closed segments.

`python -m meterlake.pipeline.worker` runs it; `meterlake serve` starts it as a child. It calls the
verbs directly, without Prefect: a round that finds nothing costs a look at a few folders.
"""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from meterlake.model import wire
from meterlake.model.errors import Busy, MeterlakeError
from meterlake.model.receipt import Receipt
from meterlake.pipeline.children import end_with_parent
from meterlake.pipeline.drop import drop_folder, ingest_inbox
from meterlake.pipeline.segments import ingest_segments
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores

POLL_S: Final = 1.0
# A measurement can be queried within seconds of its answer.
SEGMENTS_POLL_S: Final = 0.25
_PAUSE_S: Final = 10.0
_log: Final = logging.getLogger("meterlake.worker")


def work(stores: Stores, stop: Callable[[], bool], poll_seconds: float = POLL_S) -> None:
    """Ingest what is dropped until `stop` says so; the file at hand is finished first.

    A failing world (a full disk, a locked catalog) is logged and tried again, more slowly.
    """
    _repeat(lambda: _round(stores, stop), stop, poll_seconds)


def work_segments(
    stores: Stores, stop: Callable[[], bool], poll_seconds: float = SEGMENTS_POLL_S
) -> None:
    """Ingest what is submitted until `stop` says so; the segment at hand is finished first."""
    _repeat(lambda: _segments_round(stores, stop), stop, poll_seconds)


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


def _round(stores: Stores, stop: Callable[[], bool]) -> Iterator[Receipt]:
    for organization in stores.state.organizations():
        folder = drop_folder(stores, organization.code)
        with suppress(Busy):  # Another process works it.
            for receipt in ingest_inbox(stores, organization.id, folder):
                yield receipt
                if stop():
                    return


def _segments_round(stores: Stores, stop: Callable[[], bool]) -> Iterator[Receipt]:
    failed: MeterlakeError | None = None
    for organization in stores.state.organizations():
        try:
            yield from ingest_segments(stores, organization.id, stop)
        except Busy:
            continue  # Another process ingests them.
        except MeterlakeError as error:
            failed = error  # Only of this organization: the others do not wait for it.
    if failed is not None:
        raise failed


def _rest(seconds: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stop() and time.monotonic() < end:
        time.sleep(0.1)


def main() -> None:
    """Run the worker of the home of METERLAKE_HOME until SIGTERM, or until the parent ends."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    asked: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: asked.append(number))
    if os.environ.get("METERLAKE_CHILD"):
        end_with_parent()
    settings = Settings()
    with (
        open_stores(settings) as stores,
        open_stores(settings) as others,
        ThreadPoolExecutor(1, thread_name_prefix="segments") as pool,
    ):
        segments = pool.submit(work_segments, others, lambda: bool(asked))
        try:
            work(stores, lambda: bool(asked) or segments.done())
        finally:
            asked.append(0)
        segments.result()


if __name__ == "__main__":
    main()
