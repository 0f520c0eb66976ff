"""Tasks of a fan-out, what became of them, and the threads that carry them in this process."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from meterlake.model.errors import MeterlakeError, RunnerUnavailable, Unavailable
from meterlake.model.values.plurals import first_of
from meterlake.model.work.jobs import FanOutRunner
from meterlake.stores import Stores

# A task whose process died so often is given up.
DEATHS_MAX: Final = 3
_SHOWN_MAX: Final = 5

TaskFunction = Callable[..., Any]


class TasksFailed(MeterlakeError):
    """Some tasks of a fan-out failed; the sentence names them, and all others are done."""

    status = 500

    def __str__(self) -> str:
        return first_of(self.args[0], _SHOWN_MAX)


@dataclass(frozen=True, slots=True)
class FanOutTask:
    """One task of a fan-out.

    Attributes:
        name: What people call it: `bucket 3 of acme`.
        work: A function of a module; it takes the stores and the arguments.
        arguments: Small: they say where the data are.
    """

    name: str
    work: TaskFunction
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskEnd:
    """What became of a task.

    Attributes:
        number: Which one of the fan-out it is, from 0.
        name: What people call it.
        value: What it answered.
        error: Why it failed; None if it did not.
    """

    number: int
    name: str
    value: Any = field(default=None, repr=False)
    error: Exception | None = None

    def __str__(self) -> str:
        known = isinstance(self.error, MeterlakeError)
        return (
            f"{self.name}: {self.error if known else f'{type(self.error).__name__}: {self.error}'}"
        )


class FanOut(Protocol):
    """Carries tasks."""

    def run(self, tasks: Sequence[FanOutTask]) -> Iterator[TaskEnd]:
        """Run tasks; answer them as they end. An error of one ends none of the others.

        Raises:
            RunnerUnavailable: What carries them was lost.
        """


def run_task(stores: Stores, task: FanOutTask) -> tuple[Any, Exception | None]:
    """Run a task in this process: what it answers, and why it failed."""
    try:
        return task.work(stores, *task.arguments), None
    except Exception as error:  # noqa: BLE001 - whatever it is, it is of one task
        return None, _portable(error)


def _portable(error: Exception) -> Exception:
    """An error that can be told to another process."""
    error.__cause__ = error.__context__ = None
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - what was written a moment ago
    except Exception:  # noqa: BLE001 - whatever keeps it from being written
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def raise_failures(ends: Sequence[TaskEnd]) -> None:
    """Raise what stands for all failures together, if there are any.

    Raises:
        Unavailable: All of them may succeed the next time.
        TasksFailed: Some may not.
    """
    failed = [each for each in ends if each.error is not None]
    if not failed:
        return
    if all(isinstance(each.error, Unavailable) for each in failed):
        died = any(isinstance(each.error, RunnerUnavailable) for each in failed)
        kind = RunnerUnavailable if died else Unavailable
        raise kind("; ".join(each.name for each in failed), str(failed[0].error))
    raise TasksFailed([str(each) for each in failed])


@dataclass(frozen=True, slots=True)
class ThreadFanOut:
    """Runs tasks in threads."""

    stores: Stores
    pool: ThreadPoolExecutor

    def run(self, tasks: Sequence[FanOutTask]) -> Iterator[TaskEnd]:
        """Run tasks, a few at once."""
        waiting = {
            self.pool.submit(run_task, self.stores, task): (number, task.name)
            for number, task in enumerate(tasks)
        }
        for each in as_completed(waiting):
            yield TaskEnd(*waiting[each], *each.result())


@contextmanager
def open_threads(stores: Stores, runner: FanOutRunner, workers: int) -> Iterator[ThreadFanOut]:
    """Have threads; those tasks that have not begun when the body ends never do."""
    del runner
    pool = ThreadPoolExecutor(workers, thread_name_prefix="fan-out")
    try:
        yield ThreadFanOut(stores, pool)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
