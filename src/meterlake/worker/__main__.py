"""`python -m meterlake.worker`: the worker of the home of METERLAKE_HOME."""

import logging
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from meterlake.model.errors import MeterlakeError
from meterlake.model.redaction import redact_logs
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.processes import end_with_parent
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import BESIDE, WITH_RUNS, keep_runners_warm, work


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
        stores = opened.enter_context(open_stores(settings, lasting=True))
        theirs = [opened.enter_context(open_stores(settings)) for _ in BESIDE]
        executor = Executor(settings, lambda: bool(asked))
        opened.callback(executor.close)
        pool = opened.enter_context(
            ThreadPoolExecutor(len(BESIDE) + 1, thread_name_prefix="worker")
        )
        others = [
            pool.submit(_with_runs(each, executor), own, lambda: bool(asked))
            for each, own in zip(BESIDE, theirs, strict=True)
        ]
        others.append(pool.submit(keep_runners_warm, executor, lambda: bool(asked)))
        try:
            work(stores, lambda: bool(asked) or any(each.done() for each in others))
        finally:
            asked.append(0)
        for other in others:
            other.result()


def _with_runs(round_: Callable[..., None], executor: Executor) -> Callable[..., None]:
    return partial(round_, executor=executor) if round_ in WITH_RUNS else round_


if __name__ == "__main__":
    try:
        main()
    except MeterlakeError as wrong:
        sys.exit(f"meterlake worker: {wrong}")
