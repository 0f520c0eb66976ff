"""One attempt at a job: its lease is renewed, it tells how far it is, and hears when to stop."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Self

from meterlake.model.errors import (
    Conflict,
    MeterlakeError,
    RunnerUnavailable,
    StaleVersion,
    Unavailable,
)
from meterlake.stores.state.jobs import Job, Jobs, JobStatus

# So often is a lease renewed while it lasts.
_RENEWALS: Final = 6
# So often does a process that does a part of an attempt look whether it still goes on.
_FOLLOWED_S: Final = 2.0
# A job at which so many processes died kills them.
DEATHS_MAX: Final = 10
# What this process has at hand.
_AT_HAND: Final[set["Attempt"]] = set()


class Cancelled(Conflict):
    """Somebody cancelled the job."""

    text = "the {0} {1} was cancelled; begin another one to have it done"

    def __init__(self, kind: str, job_id: str) -> None:
        super().__init__(kind, job_id)


class GivenUp(Conflict):
    """The job ended its process again and again."""

    text = (
        "the {0} {1} is given up: its process died {2} times before it ended; perhaps it needs"
        " more memory than there is: give it more, and try again"
    )

    def __init__(self, kind: str, job_id: str, deaths: int) -> None:
        super().__init__(kind, job_id, deaths)


class Attempt:
    """What the steps of the work say to its job. Use `running` to have one.

    Attributes:
        job: The job as it was taken, and how far it is.
    """

    def __init__(self, jobs: Jobs, job: Job) -> None:
        self.job = job
        self._jobs = jobs
        self._lock = threading.Lock()
        # Held while the job is written to; a signal may come while this thread writes.
        self._writing = threading.RLock()
        self._left = False
        self._stop: MeterlakeError | None = None
        self._interrupts: list[Callable[[], None]] = []
        self._halted = threading.Event()

    def begin(self) -> None:
        """Begin the work, unless too many died at it.

        Raises:
            Cancelled: The job is to stop.
            GivenUp: Too many died.
        """
        self.go_on()
        if self.job.deaths >= DEATHS_MAX:
            raise GivenUp(self.job.kind, self.job.id, self.job.deaths)

    def leave(self, pause: timedelta | None = None) -> None:
        """End the attempt without a result; the next one can begin at once, or after a pause."""
        # A renewal that came later would take the job back, with what was known before.
        with self._writing:
            self._left = True
            self._jobs.release(self.job, pause)

    def tell(self, **progress: Any) -> None:
        """How far it is, by name; what is known under other names stays, None forgets it."""
        with self._lock:
            told = self.job.progress | progress
            self.job.progress = {name: each for name, each in told.items() if each is not None}

    def go_on(self) -> None:
        """Ask the job itself, before a step that others see, and go on only if it is to.

        Raises:
            Cancelled: The job is to stop.
            StaleVersion: Another attempt has the job.
        """
        # State that cannot be reached may come back before the lease is over.
        with suppress(Unavailable):
            self.renew()
        self.check()

    def check(self) -> None:
        """Go on only if nobody wants otherwise.

        Raises:
            Cancelled: The job is to stop.
            StaleVersion: Another attempt has the job.
        """
        if self._stop is not None:
            raise self._stop

    def wait(self, seconds: float) -> None:
        """Pause, unless the job is to stop.

        Raises:
            Cancelled: It is.
        """
        self._halted.wait(seconds)
        self.check()

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Have something called if the job is to stop while the body runs.

        Raises:
            Cancelled: It was to stop.
        """
        self.check()
        with self._lock:
            self._interrupts.append(interrupt)
        try:
            yield
        except Exception:
            self.check()  # What broke the body off is the interruption.
            raise
        finally:
            with self._lock:
                self._interrupts.remove(interrupt)

    def renew(self) -> None:
        """Tell the job that the attempt goes on; what stops it is kept for `check`."""
        try:
            with self._writing:
                is_cancelled = not self._left and self._jobs.renew(self.job)
        except StaleVersion as error:
            self._halt(error)
        else:
            if is_cancelled:
                self._halt(Cancelled(self.job.kind, self.job.id))

    def _halt(self, why: MeterlakeError) -> None:
        with self._lock:
            self._stop = why
            self._halted.set()
            for interrupt in self._interrupts:
                interrupt()


class Patience:
    """How often an attempt tries what depends on the world, more and more slowly.

        for trial in Patience(attempt, tries, pause_s):
            with trial:
                result = do_something()

    What is done may be begun anew. What carries the tasks of the work is not waited for.

    Raises:
        Cancelled: The job is to stop.
        RunnerUnavailable: What carries the tasks of the work failed once.
        Unavailable: The world failed each time.
    """

    def __init__(self, attempt: Attempt, tries: int, pause_s: float) -> None:
        """Begin.

        Args:
            attempt: Whose work is tried.
            tries: How often at most.
            pause_s: The first pause, in seconds; each one is twice as long as the one before.
        """
        self._attempt = attempt
        self._left = tries
        self._pause_s = pause_s
        self._is_done = False

    def __iter__(self) -> Iterator[Self]:
        while not self._is_done:
            self._attempt.check()
            self._left -= 1
            yield self

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        is_of_world = isinstance(error, Unavailable) and not isinstance(error, RunnerUnavailable)
        if not is_of_world or self._left < 1:
            self._is_done = True
            return False
        self._attempt.tell(trouble=str(error))
        self._attempt.wait(self._pause_s)
        self._pause_s *= 2
        return True


class _FollowedAttempt(Attempt):
    """An attempt that another process renews."""

    def renew(self) -> None:
        """Look whether the attempt still goes on; what stops it is kept for `check`."""
        found = self._jobs.get(self.job.id)
        if found.status is not JobStatus.RUNNING or found.attempt != self.job.attempt:
            self._halt(StaleVersion("job", found.id, found.attempt, self.job.attempt))
        elif found.cancel_asked:
            self._halt(Cancelled(found.kind, found.id))


@contextmanager
def running(jobs: Jobs, job: Job) -> Iterator[Attempt]:
    """An attempt whose lease is renewed for as long as the body runs."""
    attempt = Attempt(jobs, job)
    with _renewing(attempt, job.lease.duration.total_seconds() / _RENEWALS):
        _AT_HAND.add(attempt)
        try:
            yield attempt
        finally:
            _AT_HAND.discard(attempt)


@contextmanager
def following(jobs: Jobs, job_id: str, number: int) -> Iterator[Attempt]:
    """An attempt of another process, of which this one does a part while the body runs.

    Args:
        jobs: The jobs.
        job_id: The job.
        number: Which of its attempts; if another one has begun, the work is to stop.
    """
    attempt = _FollowedAttempt(jobs, replace(jobs.get(job_id), attempt=number))
    attempt.go_on()
    with _renewing(attempt, _FOLLOWED_S):
        yield attempt


@contextmanager
def _renewing(attempt: Attempt, seconds: float) -> Iterator[None]:
    over = threading.Event()

    def renew() -> None:
        while not over.wait(seconds):
            # State that cannot be reached may come back before the lease is over.
            with suppress(MeterlakeError):
                attempt.renew()

    thread = threading.Thread(target=renew, name=f"{attempt.job.kind}-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def leave_all() -> int:
    """Give back every job that this process has at hand; it must end right afterwards.

    Returns:
        How many were given back. The lease of any other ends by itself.
    """
    count = 0
    for attempt in list(_AT_HAND):
        with suppress(MeterlakeError):
            attempt.leave()
            count += 1
    return count
