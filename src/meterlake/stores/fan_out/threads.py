"""Tasks that threads of this process carry; they share its stores."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass

from meterlake.model.work.runner import FanOutRunner
from meterlake.stores import Stores
from meterlake.stores.fan_out.tasks import FanOutTask, TaskEnd, run_task


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
