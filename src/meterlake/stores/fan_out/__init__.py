"""Fan-outs: tasks that are carried by threads, by processes of this machine, or by Dask.

A task is a function of a module, with small arguments that say where its data are: the
organization, a job, a number. It opens the stores by itself, stores what it makes, and may be run
again at any time: whoever carries it may die. What it answers is small, too.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from meterlake.model.work.jobs import FanOutRunner, RunnerKind
from meterlake.settings import variable
from meterlake.stores import Stores
from meterlake.stores.fan_out.dask_cluster import open_dask
from meterlake.stores.fan_out.processes import open_processes
from meterlake.stores.fan_out.tasks import FanOut, FanOutTask, TaskEnd, open_threads, raise_failures

__all__ = ["FanOut", "FanOutTask", "TaskEnd", "open_fan_out", "run_tasks", "runner_of"]

_OPEN: Final[dict[RunnerKind, Callable[..., AbstractContextManager[FanOut]]]] = {
    RunnerKind.THREADS: open_threads,
    RunnerKind.PROCESSES: open_processes,
    RunnerKind.DASK: open_dask,
}


def runner_of(stores: Stores) -> FanOutRunner | None:
    """The runner that the settings name; None if fan-outs are as they are without one.

    Raises:
        Invalid: The settings name none that there is.
    """
    text = stores.settings.runner
    return FanOutRunner.parse(text, variable("runner")) if text else None


@contextmanager
def open_fan_out(stores: Stores, runner: FanOutRunner, tasks: int) -> Iterator[FanOut]:
    """Have what carries tasks; it ends with the body, whatever it still does.

    Args:
        stores: The home's stores.
        runner: What carries the tasks.
        tasks: How many there are: no more processes are started.

    Raises:
        NotAvailable: The package lacks what the runner needs.
        RunnerUnavailable: The Dask scheduler cannot be reached, or has no workers.
    """
    with _OPEN[runner.kind](
        stores, runner, max(1, min(tasks, stores.settings.runner_workers))
    ) as fan_out:
        yield fan_out


def run_tasks(
    stores: Stores,
    runner: FanOutRunner,
    tasks: Sequence[FanOutTask],
    note: Callable[[TaskEnd], None] | None = None,
) -> list[Any]:
    """Run tasks to their ends, also where some of them fail.

    Args:
        stores: The home's stores.
        runner: What carries the tasks.
        tasks: The tasks.
        note: Told of each task as it ends; what it raises ends the others, too.

    Returns:
        What the tasks answered, in their order.

    Raises:
        Unavailable: What failed may succeed the next time.
        RunnerUnavailable: It failed for want of what carries the tasks.
        TasksFailed: Some failed otherwise; each is named, and the others are done.
    """
    ends: dict[int, TaskEnd] = {}
    with open_fan_out(stores, runner, len(tasks)) as fan_out:
        for end in fan_out.run(tasks):
            ends[end.number] = end
            if note is not None:
                note(end)
    raise_failures([ends[number] for number in range(len(tasks))])
    return [ends[number].value for number in range(len(tasks))]
