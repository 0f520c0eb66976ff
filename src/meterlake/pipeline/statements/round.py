"""One look at the statement jobs of an organization that wait."""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from meterlake.model.bill_statements import KIND
from meterlake.model.errors import Busy, MeterlakeError, StaleVersion, Unavailable
from meterlake.model.receipt import Receipt
from meterlake.pipeline.jobs.runner import Runner
from meterlake.pipeline.jobs.turns import Stop
from meterlake.pipeline.statements.jobs import run_statement_job
from meterlake.stores import Stores
from meterlake.stores.state import Job

_log: Final = logging.getLogger("meterlake.worker")


def statement_round(runner: Runner, stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    """Run the jobs that wait, as the worker does: all of them are one run.

    Args:
        runner: Runs them, as a flow run where it can.
        stores: The home's stores.
        org_id: The organization.
        stop: Whether to begin no other job.

    Raises:
        Unavailable: A store failed; what waits is run later.
    """
    jobs = stores.state.jobs.waiting(org_id, KIND)
    if not jobs or stop():
        return ()
    name = "1 statement" if len(jobs) == 1 else f"{len(jobs):,} statements"
    parameters = {"org": stores.state.organization(org_id).code, "name": name}
    return runner.run(KIND, parameters, partial(_directly, stores, org_id, stop), stop)


def _directly(stores: Stores, org_id: str, stop: Stop) -> Iterable[Receipt]:
    for job, error in run_waiting(stores, org_id, stop):
        if error is not None:
            trace = None if isinstance(error, MeterlakeError) else error
            _log.warning("statement job %s: %s", job.id, error, exc_info=trace)
    return ()


def run_waiting(
    stores: Stores, org_id: str, stop: Stop = lambda: False
) -> Iterator[tuple[Job, Exception | None]]:
    """Run the jobs that wait, the oldest first; also those that come meanwhile.

    Yields:
        Each job, and why it failed if it did: the others do not wait for it.

    Raises:
        Unavailable: A store failed; what waits is run later.
    """
    tried: set[str] = set()
    while found := [
        each for each in stores.state.jobs.waiting(org_id, KIND) if each.id not in tried
    ]:
        for job in found:
            if stop():
                return
            tried.add(job.id)
            try:
                run_statement_job(stores, job.id, stop)
            except (Busy, StaleVersion):
                continue  # Another process runs it, or took it over; or the worker stops.
            except Unavailable:
                raise
            except Exception as error:  # noqa: BLE001 - the others do not wait for it
                yield job, error
            else:
                yield job, None
