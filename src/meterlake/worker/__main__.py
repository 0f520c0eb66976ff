"""`python -m meterlake.worker`: the worker of the home of METERLAKE_HOME."""

import logging
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from meterlake.model.errors import MeterlakeError
from meterlake.model.redaction import redact_logs
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.processes import end_with_parent
from meterlake.worker.rounds import BESIDE, work


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
        pool = opened.enter_context(ThreadPoolExecutor(len(BESIDE), thread_name_prefix="worker"))
        others = [
            pool.submit(each, own, lambda: bool(asked))
            for each, own in zip(BESIDE, theirs, strict=True)
        ]
        try:
            work(stores, lambda: bool(asked) or any(each.done() for each in others))
        finally:
            asked.append(0)
        for other in others:
            other.result()


if __name__ == "__main__":
    try:
        main()
    except MeterlakeError as wrong:
        sys.exit(f"meterlake worker: {wrong}")
