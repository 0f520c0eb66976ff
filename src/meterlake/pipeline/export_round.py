"""One look of the worker at an organization's exports: those that are due, and those that wait."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from meterlake.model.errors import Busy, MeterlakeError, NotFound, StaleVersion
from meterlake.model.export_request import KIND
from meterlake.model.exports import ExportSchedule
from meterlake.model.receipt import Receipt
from meterlake.pipeline.executor import Executor
from meterlake.pipeline.export import run_export
from meterlake.pipeline.export_schedules import submit_due
from meterlake.stores import Stores
from meterlake.stores.state import Job

_log: Final = logging.getLogger("meterlake.worker")


def export_round(
    executor: Executor, stores: Stores, org_id: str, stop: Callable[[], bool]
) -> Iterable[Receipt]:
    """Make the jobs that are due, and run those that wait.

    A job that failed has told of it by an event; it is only logged here.

    Raises:
        Unavailable: State cannot be reached.
    """
    submit_due(stores, org_id)

    def run(job: Job) -> object:
        code = stores.state.organization(org_id).code
        parameters = {"org": code, "job": job.id, "name": described(stores, job)}
        return executor.run("export:export_job", parameters, partial(_directly, stores, job))

    for job, error in run_waiting(stores, org_id, stop, run):
        if error is not None:
            _log.warning("export %s: %s: %s", job.id, type(error).__name__, error)
    return ()


def run_waiting(
    stores: Stores,
    org_id: str,
    stop: Callable[[], bool] = lambda: False,
    run: Callable[[Job], object] | None = None,
) -> Iterator[tuple[Job, MeterlakeError | None]]:
    """Run the exports of an organization that wait, the oldest first.

    Args:
        stores: The home's stores.
        org_id: The organization.
        stop: Asked between two jobs.
        run: Runs a job; directly when None.

    Yields:
        Each job, and why it failed if it did: the others do not wait for it.
    """
    for job in stores.state.jobs.waiting(org_id, KIND):
        if stop():
            return
        try:
            run(job) if run else run_export(stores, job.id)
        except (Busy, StaleVersion):
            continue  # Another process runs it, or took it over.
        except MeterlakeError as error:
            yield job, error
        else:
            yield job, None


def described(stores: Stores, job: Job) -> str:
    """How people know a job: the name of its schedule, or what is exported."""
    if job.schedule_id is not None:
        with suppress(NotFound), stores.state.reading(job.org_id) as reader:
            return reader.get(ExportSchedule, job.schedule_id).entity.name
    return f"{job.parameters['source']} as {job.parameters['format']}"


def _directly(stores: Stores, job: Job) -> Iterable[Receipt]:
    run_export(stores, job.id)
    return ()
