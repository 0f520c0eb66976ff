"""`python -m meterlake.worker`: the worker of the home of METERLAKE_HOME."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import datetime
from threading import Thread
from typing import Final

from cyclopts import App

from meterlake.model.errors import MeterlakeError, Unavailable
from meterlake.model.values.log_lines import log_to_stderr
from meterlake.model.work.automatic_work import check_names
from meterlake.pipeline.export.destinations import unreachable_from_here
from meterlake.pipeline.jobs.attempt import leave_all
from meterlake.pipeline.jobs.fair_turns import PAUSE_S, Stop, rest
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from meterlake.stores.processes import end_with_parent
from meterlake.stores.state import utc_now
from meterlake.worker.flow_runs import Executor
from meterlake.worker.health import WorkerHealth, serve_health
from meterlake.worker.rounds import Loop, rounds_of

_TICK_S: Final = 0.1
# Less than `meterlake serve` waits before it kills.
_GRACE_S: Final = 8.0
_log: Final = logging.getLogger("meterlake.worker")


def main(
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    grace: float = _GRACE_S,
) -> None:
    """Run the worker of the home of METERLAKE_HOME until SIGTERM, or until the parent ends.

    Args:
        host: The address on which it says how it is.
        port: The port of that; none if None.
        grace: Seconds that what has begun may take when it is stopped.
    """
    log_to_stderr()
    asked = _note_signals()
    if os.environ.get("METERLAKE_CHILD"):
        end_with_parent()
    settings = Settings()
    check_names("METERLAKE_WITHOUT", settings.without)
    with ExitStack() as opened:
        # It writes down what the services of the home agree on, which the rounds then read.
        stores = opened.enter_context(open_stores(settings, lasting=True))
        if port is not None:
            health = WorkerHealth(stores, lambda: bool(asked))
            opened.enter_context(serve_health(health, host, port))
        if settings.without:
            _log.info("switched off: %s", ", ".join(settings.without))
        # A bucket that does not answer holds nobody up, neither the work nor the end of it.
        Thread(target=_say_unreachable, args=(stores,), daemon=True).start()
        pool = ThreadPoolExecutor(len(rounds_of(settings)), thread_name_prefix="worker")
        running = start_rounds(opened, pool, settings, lambda: bool(asked))
        try:
            while not asked and not wait(running, _TICK_S, FIRST_COMPLETED).done:
                pass
        finally:
            asked.append(0)
            _drain(running, grace)
            pool.shutdown()
        for ended in running:
            ended.result()


def _say_unreachable(stores: Stores) -> None:
    try:
        for sentence in unreachable_from_here(stores):
            _log.warning("%s", sentence)
    except MeterlakeError as error:
        _log.warning("destinations of exports were not looked at: %s", error)


def _note_signals() -> list[int]:
    """A list that is empty until a signal asks to stop."""
    asked: list[int] = []
    signals = (signal.SIGTERM, signal.SIGINT)
    for each in signals:
        signal.signal(each, lambda number, _: asked.append(number))
    # Who started this process may have held back what came before it could be heard.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    return asked


def _drain(running: list[Future[None]], grace: float) -> None:
    """Let what has begun end; what takes too long is given back, and the process ends at once."""
    done, late = wait(running, grace)
    if not late:
        return
    count = leave_all()
    _log.warning("stopped after %s seconds: %s jobs at hand are given back", grace, count)
    failures = [error for each in done if (error := each.exception()) is not None]
    for error in failures:
        _log.error("a round failed", exc_info=error)
    # Threads that are in the middle of something cannot be ended otherwise. It is as safe as a
    # crash, without its cost: nobody waits for the leases.
    logging.shutdown()
    os._exit(1 if failures else 0)


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
    loops = list(_open_loops(opened, settings, executor, stop, now))
    rounds = rounds_of(settings)
    # Fewer, if the worker is to end by now.
    return [pool.submit(each.run, loop) for each, loop in zip(rounds, loops, strict=False)]


def _open_loops(
    opened: ExitStack,
    settings: Settings,
    executor: Executor,
    stop: Stop,
    now: Callable[[], datetime],
) -> Iterator[Loop]:
    """What the rounds work with; a State that went away since the worker began is waited for."""
    left = len(rounds_of(settings))
    while left and not stop():
        try:
            stores = opened.enter_context(open_stores(settings, now))
        except Unavailable as error:
            _log.warning("%s; the worker starts when it is back", error)
            rest(PAUSE_S, stop)
        else:
            left -= 1
            yield Loop(stores, executor, stop)


if __name__ == "__main__":
    try:
        App(default_command=main, result_action="return_value")()
    except MeterlakeError as wrong:
        sys.exit(f"meterlake worker: {wrong}")
