"""The engine: one job is taken, begun, worked on, and finished, failed, cancelled or given back.

What becomes of a job is one rule for all kinds (`JobRun.status_after`). Who runs it makes the only
difference. What the worker runs (`run_job`) somebody else can go on with: an interruption gives it
back. What a command runs (`run_here`) is for the person who waits for it: an interruption cancels
it, and nothing gives it back, so that nobody does it behind that person's back.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from meterlake.model.configuration.access import SYSTEM
from meterlake.model.errors import Busy, Invalid, MeterlakeError, StaleVersion, Unavailable
from meterlake.pipeline.jobs.attempt import Attempt, Cancelled, GivenUp, Patience, running
from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Job, JobStatus, Transaction
from meterlake.stores.state.acts import Act, ActAction, ActKind, record_act
from meterlake.stores.state.jobs import finish_job, read_job

T = TypeVar("T")

# The member of the progress that counts attempts in a row for which the world failed.
_UNAVAILABLE: Final = "unavailable"
_INTERRUPTED: Final = "the command that ran it was stopped before the end; run it again"


def never_stop() -> bool:
    """Nobody stops the work before its end."""
    return False


@dataclass(frozen=True, slots=True)
class JobRun(Generic[T]):
    """One attempt at a job, as its work sees it.

    Attributes:
        attempt: Renews the lease, and hears when to stop.
        stop: Whether to stop before the end; the job then waits for the next worker.
        is_command: Whether a person waits for the end of the command that runs it.
    """

    stores: Stores
    spec: JobSpec[T]
    attempt: Attempt
    stop: Stop = never_stop
    is_command: bool = False

    @property
    def job(self) -> Job:
        """The job as it was taken, and how far it is."""
        return self.attempt.job

    def check(self, *_: int) -> None:
        """Go on only if nobody wants otherwise; to be called now and then, with anything.

        Raises:
            Cancelled: The job is to stop.
            StaleVersion: Another attempt has the job.
            Busy: The worker stops.
        """
        self.attempt.check()
        if self.stop():
            raise Busy(
                f"{self.spec.name} {self.job.id!r}", "the worker stops; the next one goes on"
            )

    def finish_in(
        self,
        transaction: Transaction,
        *,
        error: str | None = None,
        status: JobStatus | None = None,
    ) -> None:
        """Write the end of the job down, and its event, together with what the job did.

        Args:
            transaction: Where to.
            error: Why it came to nothing.
            status: Of how it ended; it follows from the error if None.

        Raises:
            StaleVersion: Another attempt took the job over, or it has ended.
        """
        before = read_job(transaction.connection, self.job.id)
        finish_job(transaction.connection, self.job, transaction.now, error=error, status=status)
        self.spec.note_event(transaction, self.job, before)

    def status_after(self, error: BaseException) -> JobStatus | None:
        """What an error, or a signal, makes of the job; None if it waits to be run again."""
        if isinstance(error, Cancelled):
            return JobStatus.CANCELLED
        if not isinstance(error, Exception):
            # A signal, whoever raises what for it: the process ends.
            return JobStatus.CANCELLED if self.is_command else None
        fails = self.is_command or isinstance(error, GivenUp) or not self._may_wait(error)
        return JobStatus.FAILED if fails else None

    def _may_wait(self, error: Exception) -> bool:
        if isinstance(error, Busy | StaleVersion):
            return True  # Somebody else has it, or what it is about; or the worker stops.
        if isinstance(error, Unavailable):
            tries = self.spec.when_unavailable.tries
            return tries is None or self._unavailable() + 1 < tries
        return self.spec.waits_after_errors

    def _unavailable(self) -> int:
        return int(self.job.progress.get(_UNAVAILABLE, 0))

    def finish(self, error: str | None = None, status: JobStatus | None = None) -> None:
        """Write the end of the job down, and its event; see `finish_in`."""
        job = self.job
        with self.stores.state.transaction(job.org_id, job.author or SYSTEM) as transaction:
            self.finish_in(transaction, error=error, status=status)

    def finish_after(self, error: BaseException) -> None:
        """Write down what an error made of the job; if another attempt has it, that one does."""
        status = self.status_after(error)
        # State may be what failed: then the lease ends by itself.
        with suppress(MeterlakeError):
            if status is None:
                rule, pause = self.spec.when_unavailable, None
                if isinstance(error, Unavailable) and rule.tries is not None:
                    pause = rule.pause
                    self.attempt.tell(**{_UNAVAILABLE: self._unavailable() + 1}, trouble=str(error))
                self.attempt.leave(pause)
                return
            self.finish(describe_error(error), status)
            if status is JobStatus.FAILED:
                self.spec.after_failure(self.stores, self.job)


def describe_error(error: BaseException) -> str:
    """Why a job came to nothing, as its row says it."""
    if isinstance(error, MeterlakeError):
        return str(error)
    if isinstance(error, Exception):
        return f"{type(error).__name__}: {error}"
    return _INTERRUPTED


def run_job(stores: Stores, spec: JobSpec[T], job_id: str, stop: Stop = never_stop) -> T:
    """Run a job to its end, also one whose executor died.

    Args:
        stores: The home's stores.
        spec: Its kind.
        job_id: The job.
        stop: Whether to stop before the end; the job then waits for the next worker.

    Returns:
        What its work returned.

    Raises:
        NotFound: There is no such job.
        Invalid: The job is of another kind.
        Busy: Somebody works on it, or it has ended; or the worker stops, or lacks what it needs.
        StaleVersion: Another attempt took it over meanwhile; the end of this one does not count.
        Cancelled: It was cancelled.
        GivenUp: Its process died too often.
        Unavailable: The world failed; the job waits to be run again, or has failed.
    """
    with _take(stores, spec, job_id, stop) as run:
        return spec.work(run)


def run_taken_here(stores: Stores, spec: JobSpec[T], job_id: str) -> T:
    """Run a job that waits as the command of a person who waits for its end; see `run_job`."""
    with _take(stores, spec, job_id, is_command=True) as run:
        return spec.work(run)


def run_here(
    stores: Stores,
    spec: JobSpec[T],
    job_id: str,
    submitted: Callable[[], None],
    tries: int = 1,
    pause_s: float = 0,
) -> T:
    """Run a job as the command of a person who waits for its end, and had it begin when it was made.

    If this process dies, a worker finishes the job.

    Args:
        stores: The home's stores.
        spec: Its kind.
        job_id: The job; see `Job.begin`.
        submitted: The kill step of a job that was made.
        tries: How often the work is done at most if the world fails, since the person waits.
        pause_s: The first pause between two tries, in seconds; the next one is twice as long.

    Returns:
        What its work returned.

    Raises:
        MeterlakeError: It failed.
    """
    job = stores.state.jobs.get(job_id)
    with _work_on(stores, spec, job, submitted, is_command=True) as run:
        for trial in Patience(run.attempt, tries, pause_s):
            with trial:
                result = spec.work(run)
    return result


@contextmanager
def hold_job(stores: Stores, job: Job) -> Iterator[Attempt]:
    """Have a job that is taken for as long as the body runs, and give it back whatever came of it.

    Raises:
        Cancelled, GivenUp: The job is to stop.
    """
    with running(stores.state.jobs, job) as attempt:
        try:
            attempt.begin()
            yield attempt
        finally:
            attempt.leave()


@contextmanager
def _take(
    stores: Stores,
    spec: JobSpec[T],
    job_id: str,
    stop: Stop = never_stop,
    *,
    is_command: bool = False,
) -> Iterator[JobRun[T]]:
    """Take a job; see `_work_on`."""
    job = stores.state.jobs.get(job_id)
    if job.kind not in spec.kinds:
        raise Invalid("job", job_id, f"its kind must be {spec.kind}, not {job.kind}")
    if missing := spec.lacks(stores, job):
        raise Busy(
            f"{spec.name} {job_id}",
            f"it waits for a process that has what it needs ({missing}); start one that has",
        )
    with spec.turn(stores, job):
        pins = spec.pin(stores, job)
        job = stores.state.jobs.take(job_id, pins.snapshot, pins.parameters)
        with _work_on(stores, spec, job, spec.taken, stop, is_command=is_command) as run:
            yield run


@contextmanager
def _work_on(
    stores: Stores,
    spec: JobSpec[T],
    job: Job,
    begun: Callable[[], None],
    stop: Stop = never_stop,
    *,
    is_command: bool = False,
) -> Iterator[JobRun[T]]:
    """An attempt at a job that is taken: the body does its work, then it ends, or is given back."""
    with running(stores.state.jobs, job) as attempt:
        run = JobRun(stores, spec, attempt, stop, is_command)
        try:
            begun()
            with spec.hold(run):
                attempt.begin()
                yield run
                if job.finished is None:
                    run.finish()
                spec.finished()
        except BaseException as error:
            run.finish_after(error)
            raise


def note_run_act(organization: Organization, author: str, job: Job, action: ActAction) -> None:
    """Keep who cancelled a job, or ran it again."""
    with organization.transaction(author) as transaction:
        record_act(transaction, Act(ActKind.RUN, job.id, job.kind, action))


def cancel_job(
    organization: Organization, id: str, spec: JobSpec[Any], author: str | None = None
) -> None:
    """End a job that waits or whose executor is dead, or have the one who works on it stop.

    Args:
        organization: The organization.
        id: The job.
        spec: What kind of job it has to be.
        author: Who cancels it; None if meterlake does.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended, or runs and stops for nobody.
    """
    before = organization.state.jobs.find(organization.id, id, spec.kind)
    job = organization.state.jobs.cancel(organization.id, id, spec.kind, running=spec.stops)
    if author is not None:
        note_run_act(organization, author, job, ActAction.CANCELLED)
    if job.status is JobStatus.CANCELLED:
        with organization.transaction(job.author or SYSTEM) as transaction:
            spec.note_event(transaction, job, before)
    elif job.lease_until is None or job.lease_until <= organization.now():
        # Nobody else hears of it. If this fails, whoever takes the job ends it.
        with suppress(MeterlakeError):
            run_job(organization.stores, spec, id)
