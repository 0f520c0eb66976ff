"""The loop over the jobs of an organization that wait: the worker's round, and whoever does as it does."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from meterlake.model.errors import Busy, MeterlakeError, NotFound, StaleVersion
from meterlake.model.measurements.receipt import Receipt
from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.jobs.run_job import never_stop, run_job
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Job

T = TypeVar("T")
_log: Final = logging.getLogger("meterlake.worker")


class Runner(Protocol):
    """Runs jobs, each where it is seen best."""

    def run(
        self,
        flow: str,
        parameters: Mapping[str, Any],
        verb: Callable[[], Iterable[Receipt]],
        over: Callable[[], bool] | None = None,
    ) -> Iterable[Receipt]:
        """Run one job to its end: as a flow, or by the verb that does the same.

        Raises:
            Unavailable: The flow run failed; the job is due again later.
        """
        ...

    def ends(self) -> bool:
        """Whether the process ends: then a job is left in order, for the next one."""
        ...

    def warn_once(self, text: str) -> None:
        """Log something that is found again at every look, the first time."""
        ...


@dataclass(frozen=True, slots=True)
class JobOutcome(Generic[T]):
    """What became of a job that waited.

    Attributes:
        job: As it was before.
        result: What its work returned, if it ended well.
        error: Why it did not.
        waits: Whether it waits to be run again.
    """

    job: Job
    result: T | None = None
    error: Exception | None = None
    waits: bool = False


def run_waiting(
    stores: Stores,
    find: Callable[[], Sequence[Job]],
    run: Callable[[Job], T],
    stop: Stop = never_stop,
) -> Iterator[JobOutcome[T]]:
    """Run jobs that wait, each once, the oldest first; also those that come meanwhile.

    Args:
        stores: The home's stores.
        find: The jobs of one organization that wait.
        run: Runs one, here or as a flow run.
        stop: Whether to begin no other job.

    Yields:
        What became of each that nobody else ran: the others do not wait for one that fails.

    Raises:
        Unavailable: State cannot be reached.
    """
    # One that waits again is a matter of the next turn.
    tried: set[str] = set()
    while found := [each for each in find() if each.id not in tried]:
        for job in found:
            if stop():
                return
            tried.add(job.id)
            try:
                result = run(job)
            except (Busy, StaleVersion):
                continue  # Another process runs it, or took it over; or the worker stops.
            except Exception as error:  # noqa: BLE001 - the others do not wait for it
                if not isinstance(error, MeterlakeError):
                    # What broke may be the connection: the next job has a new one.
                    stores.lake(job.org_id).close()
                yield JobOutcome(job, error=error, waits=_waits(stores, job))
            else:
                yield JobOutcome(job, result)


def _waits(stores: Stores, job: Job) -> bool:
    try:
        return stores.state.jobs.get(job.id).finished is None
    except NotFound:
        return False  # It was forgotten meanwhile.


def run_all_waiting(
    organization: Organization, spec: JobSpec[T], stop: Stop = never_stop, leave: Stop = never_stop
) -> Iterator[JobOutcome[T]]:
    """Run the jobs of a kind that wait, here.

    Args:
        spec: The kind.
        organization: The organization.
        stop: Whether to begin no other job.
        leave: Whether to leave the one at hand as well.

    Yields:
        What became of each; see `run_waiting`.
    """

    def run(job: Job) -> T:
        _expect_due(organization.stores, spec, job)
        return run_job(organization.stores, spec, job.id, leave)

    return run_waiting(organization.stores, partial(spec.waiting, organization), run, stop)


def run_round(
    spec: JobSpec[Any], runner: Runner, organization: Organization, stop: Stop
) -> Iterable[Receipt]:
    """Run what waits of a kind, as the worker does; one that failed is logged.

    Args:
        spec: The kind.
        runner: Runs each, as a flow run where it can; when it ends, a job is left in order.
        organization: The organization.
        stop: Whether to begin no other job.

    Raises:
        Exception: Why the first one waits to be run again that does; all of them were tried.
    """
    if spec.batch is not None and spec.flow is not None:
        # Have one run take all that wait.
        found = spec.waiting(organization)
        if not found or stop():
            return ()
        name = spec.describe(organization.stores, found[0])
        if len(found) > 1:
            name = f"{len(found):,} {spec.batch}"
        parameters = {"org": organization.code, "name": name}
        verb = partial(_run_all_directly, spec, organization, stop, runner.ends)
        return runner.run(spec.flow, parameters, verb, stop)

    def run(job: Job) -> None:
        _expect_due(organization.stores, spec, job)
        if missing := spec.lacks(organization.stores, job):
            runner.warn_once(f"{spec.name} {job.id} waits, or another worker runs it: {missing}")
            raise Busy(f"{spec.name} {job.id}", f"{missing}; a worker that has it goes on")
        verb = partial(_run_directly, organization.stores, spec, job, runner.ends)
        if spec.flow is None:
            verb()
            return
        code = organization.code
        name = spec.describe(organization.stores, job)
        runner.run(spec.flow, {"org": code, "job": job.id, "name": name}, verb)

    find = partial(spec.waiting, organization)
    for _ in _log_each(
        organization.stores, spec, run_waiting(organization.stores, find, run, stop)
    ):
        pass
    return ()


def _run_directly(stores: Stores, spec: JobSpec[Any], job: Job, leave: Stop) -> Iterable[Receipt]:
    run_job(stores, spec, job.id, leave)
    return ()


def _expect_due(stores: Stores, spec: JobSpec[Any], job: Job) -> None:
    if not spec.is_due(stores, job):
        raise Busy(
            f"{spec.name} {job.id}",
            "its organization has them switched off; change that, or wait",
        )


def _run_all_directly(
    spec: JobSpec[Any], organization: Organization, stop: Stop, leave: Stop
) -> Iterator[Receipt]:
    ran = run_all_waiting(organization, spec, stop, leave)
    for each in _log_each(organization.stores, spec, ran):
        if isinstance(each.result, Receipt):
            yield each.result


def _log_each(
    stores: Stores, spec: JobSpec[T], ran: Iterable[JobOutcome[T]]
) -> Iterator[JobOutcome[T]]:
    """Log why a job failed; if one waits to be run again at once, say so when all were tried."""
    waits: Exception | None = None
    for each in ran:
        job, error = each.job, each.error
        if error is not None and each.waits and spec.when_unavailable.pause is None:
            waits = waits or error
        elif error is not None:
            trace = None if isinstance(error, MeterlakeError) else error
            _log.warning("%s %s: %s", spec.name, job.id, error, exc_info=trace)
        if spec.warnings is not None and not each.waits:
            for text in spec.warnings(stores.state.jobs.get(job.id)):
                _log.warning("%s %s: %s", spec.name, job.id, text)
        yield each
    if waits is not None:
        raise waits
