"""Jobs as flow runs, one after the other, in this process: `python -m flows.runner --home … --api …`.

The worker starts it and keeps it, since importing Prefect takes longer than most jobs. It writes a
job as a line of JSON, and reads a line with the exit code. Nothing here imports Prefect before its
environment is set.
"""

import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from cyclopts import App

from flows.incomplete import Incomplete
from flows.kinds import flow_of
from flows.server import client_environment
from flows.turn import OVER
from meterlake.model.errors import MeterlakeError
from meterlake.pipeline.home.job_kinds import JOB_KINDS
from meterlake.pipeline.ingest.inbox import INBOX_FLOW
from meterlake.stores.files.durable import make_private
from meterlake.stores.processes import answers, orders
from meterlake.worker.flow_runs import FAILED, READY

BROKEN: Final = 1
# A server that is gone is not waited for long: the worker does without.
_RETRIES: Final = {"PREFECT_CLIENT_MAX_RETRIES": "2"}

Order = dict[str, Any]


def serve_jobs(*, home: Path, api: str) -> int:
    """Run the jobs that the parent writes until it ends, or until a run breaks in an unknown way.

    Args:
        home: The home folder, whose stores stay open between two jobs.
        api: The URL of the Prefect server's API.
    """
    make_private()
    answer, jobs = answers(), SimpleQueue[Order]()
    orders(lambda line: _take_order(jobs, json.loads(line)))
    environment = client_environment(home, api, {**_RETRIES, **os.environ})
    os.environ.clear()
    os.environ.update(environment)
    for flow in {INBOX_FLOW, *(spec.flow for spec in JOB_KINDS.values() if spec.flow)}:
        flow_of(flow)
    from prefect.context import SyncClientContext  # noqa: PLC0415
    from prefect.settings import (  # noqa: PLC0415
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        temporary_settings,
    )

    from flows.parameters import kept_open  # noqa: PLC0415

    # The end of a run would wait up to a second for the thread that tells that it lives.
    silent = temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None})
    try:
        # All runs share one client: to make one takes longer than most of what is asked of it.
        with kept_open(home), silent, SyncClientContext.get_or_create():
            code = 0
            answer.write(json.dumps(READY).encode() + b"\n")
            while code != BROKEN:
                job = jobs.get()
                code = run_job(job["kind"], job["parameters"])
                told = {"code": code, "memory": _memory()}
                answer.write(json.dumps(told).encode() + b"\n")
    except BrokenPipeError:  # The worker is gone.
        return BROKEN
    except MeterlakeError as error:  # The home cannot be opened: the worker meets that as well.
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return BROKEN
    return code


def _take_order(jobs: "SimpleQueue[Order]", order: Order) -> None:
    if "over" in order:
        OVER.set()
        return
    OVER.clear()
    jobs.put(order)


def run_job(kind: str, parameters: Order) -> int:
    """Run the flow of a kind.

    Args:
        kind: The flow, see `flow_of`.
        parameters: Its parameters.

    Returns:
        0 if the flow did what there was to do, also where a file cannot be read; 4 if the world
        failed; 1 if Prefect or we did.
    """
    try:
        # A run of which something could not be done is shown as failed; its job says what to do.
        with suppress(Incomplete):
            flow_of(kind)(**parameters)
    except MeterlakeError:
        return FAILED
    except Exception:  # noqa: BLE001 - the worker does the work without us
        traceback.print_exc()
        return BROKEN
    return 0


def _memory() -> int:
    """What this process takes now."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except OSError:  # Not on Linux.
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    app = App(name="python -m flows.runner", version_flags=(), result_action="return_value")
    app.default(serve_jobs)
    sys.exit(app())
