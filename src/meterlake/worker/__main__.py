"""`python -m meterlake.worker`: the worker of the home of METERLAKE_HOME."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import datetime
from typing import Final

from meterlake.model.errors import MeterlakeError
from meterlake.model.redaction import redact_logs
from meterlake.pipeline.jobs.turns import Stop
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.processes import end_with_parent
from meterlake.stores.state import utc_now
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import ROUNDS, Loop

_TICK_S: Final = 0.1


def main() -> None:
    """Run the worker of the home of METERLAKE_HOME until SIGTERM, or until the parent ends."""
    redact_logs()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    asked: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: asked.append(number))
    if os.environ.get("METERLAKE_CHILD"):
        end_with_parent()
    settings = Settings()
    with ExitStack() as opened:
        # It writes down what the services of the home agree on, which the rounds then read.
        opened.enter_context(open_stores(settings, lasting=True))
        pool = ThreadPoolExecutor(len(ROUNDS), thread_name_prefix="worker")
        running = start_rounds(opened, pool, settings, lambda: bool(asked))
        try:
            while not asked and not wait(running, _TICK_S, FIRST_COMPLETED).done:
                pass
        finally:
            asked.append(0)
            pool.shutdown()
        for ended in running:
            ended.result()


def start_rounds(
    opened: ExitStack,
    pool: ThreadPoolExecutor,
    settings: Settings,
    stop: Stop,
    now: Callable[[], datetime] = utc_now,
) -> list[Future[None]]:
    """Start all rounds, each in a thread with stores of its own.

    Args:
        opened: Closes what they work with.
        pool: Has a thread for each.
        settings: The home's.
        stop: Whether they are to end.
        now: The clock.
    """
    executor = Executor(settings, stop)
    opened.callback(executor.close)
    loops = [Loop(opened.enter_context(open_stores(settings, now)), executor, stop) for _ in ROUNDS]
    return [pool.submit(each.run, loop) for each, loop in zip(ROUNDS, loops, strict=True)]


if __name__ == "__main__":
    try:
        main()
    except MeterlakeError as wrong:
        sys.exit(f"meterlake worker: {wrong}")
