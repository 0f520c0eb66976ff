"""Loaded by Dask workers under test: each bill and each month takes a while, so that one can kill."""

import time
from typing import Any

from meterlake.model.values import failpoint

SECONDS = 2.0
STEPS = ("bill.made", "backfill.partition_done", "export.file_staged")


def wait_at(step: str) -> None:
    """Take a while at some steps."""
    if step in STEPS:
        time.sleep(SECONDS)


def dask_setup(worker: Any) -> None:
    """Called by Dask when a worker starts."""
    del worker
    failpoint.hook = wait_at
