"""One look at the exports of an organization: those that are due, and those that wait."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from meterlake.model.errors import Busy, MeterlakeError, NotFound, StaleVersion, Unavailable
from meterlake.model.export_request import KIND
from meterlake.model.exports import ExportSchedule
from meterlake.model.receipt import Receipt
from meterlake.pipeline.config.schedule_jobs import exports_enabled
from meterlake.pipeline.export.destinations import missing_here
from meterlake.pipeline.export.jobs import forget_downloads
from meterlake.pipeline.export.run import Exported, run_export
from meterlake.pipeline.export.schedules import submit_due
from meterlake.pipeline.jobs.runner import Runner
from meterlake.stores import Stores
from meterlake.stores.state import Job, JobStatus

_log: Final = logging.getLogger("meterlake.worker")


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of a job that waited.

    Attributes:
        exported: What it wrote, if that is known here.
        error: Why it failed, if it did.
    """

    job: Job
    exported: Exported | None = None
    error: Exception | None = None


def export_round(
    runner: Runner, stores: Stores, org_id: str, stop: Callable[[], bool]
) -> Iterable[Receipt]:
    """Run the jobs that wait, as the worker does.

    A job that failed has told of it by an event; it is only logged here, whatever broke it off:
    neither the other exports nor other work of this process end with it.

    Raises:
        Unavailable: State cannot be reached.
    """

    def run(job: Job) -> None:
        if missing := missing_here(stores, job):
            runner.warn_once(f"export {job.id} waits, or another worker runs it: {missing}")
            raise Busy(f"export {job.id}", f"{missing}; a worker that has it goes on")
        code = stores.state.organization(org_id).code
        parameters = {"org": code, "job": job.id, "name": describe_job(stores, job)}
        runner.run(KIND, parameters, partial(_directly, stores, job))

    for ran in run_waiting(stores, org_id, stop, run):
        if ran.error is not None:
            _log_failure(ran.job, ran.error)
    return ()


def whole_round(stores: Stores, org_id: str) -> tuple[int, list[Ran]]:
    """All that the worker does for exports, where there is no worker, one after the other.

    Returns:
        How many jobs were due, and what became of those that waited.

    Raises:
        Unavailable: State cannot be reached.
    """
    due = submit_due(stores, org_id)
    ran = list(run_waiting(stores, org_id))
    with suppress(Unavailable):  # The next look removes them.
        forget_downloads(stores, org_id)
    return len(due), ran


def _log_failure(job: Job, error: Exception) -> None:
    trace = None if isinstance(error, MeterlakeError) else error
    _log.warning("export %s: %s: %s", job.id, type(error).__name__, error, exc_info=trace)


def run_waiting(
    stores: Stores,
    org_id: str,
    stop: Callable[[], bool] = lambda: False,
    run: Callable[[Job], Exported | None] | None = None,
) -> Iterator[Ran]:
    """Run the exports of an organization that wait, the oldest first.

    None begins while the organization has exports switched off; those that have begun are finished.

    Args:
        stores: The home's stores.
        org_id: The organization.
        stop: Asked between two jobs.
        run: Runs a job; directly when None.

    Yields:
        Each job, and why it failed if it did: whatever the reason, the others do not wait for it.
    """
    for job in stores.state.jobs.waiting(org_id, KIND):
        if stop():
            return
        if job.status is JobStatus.PENDING and not _is_enabled(stores, org_id):
            continue
        try:
            exported = run(job) if run else run_export(stores, job.id)
        except (Busy, StaleVersion):
            continue  # Another process runs it, or took it over.
        except Exception as error:  # noqa: BLE001 - whoever looks at it is told
            if not isinstance(error, MeterlakeError):
                # What broke may be the connection: the next job has a new one.
                stores.lake(org_id).close()
            yield Ran(job, error=error)
        else:
            yield Ran(job, exported)


def describe_job(stores: Stores, job: Job) -> str:
    """How people know a job: the name of its schedule, or what is exported."""
    if job.schedule_id is not None:
        with suppress(NotFound), stores.state.reading(job.org_id) as reader:
            return reader.get(ExportSchedule, job.schedule_id).entity.name
    return f"{job.parameters['source']} as {job.parameters['format']}"


def _is_enabled(stores: Stores, org_id: str) -> bool:
    with stores.state.reading(org_id) as reader:
        return exports_enabled(reader)


def _directly(stores: Stores, job: Job) -> Iterable[Receipt]:
    run_export(stores, job.id)
    return ()
