"""Tasks that Dask carries: a cluster on this machine, or one that a scheduler is the address of.

Dask runs a task again elsewhere when its worker dies. A scheduler that dies loses what it knew:
the fan-out fails, and what its tasks have stored stays; running it again takes that as it is.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from meterlake.model.errors import Conflict, MeterlakeError, NotAvailable, RunnerUnavailable
from meterlake.model.values.version import calculation_digest, code_version
from meterlake.model.work.jobs import FanOutRunner
from meterlake.settings import Settings
from meterlake.stores import Stores, open_stores
from meterlake.stores.fan_out.processes import child_environment
from meterlake.stores.fan_out.tasks import DEATHS_MAX, FanOutTask, TaskEnd, run_task

# A scheduler that has not answered, or has no worker, after so long is not there.
_CONNECT_S: Final = 10
# A worker that died is followed by another one sooner.
_LOST_S: Final = 30
_POLL_S: Final = 0.1
_LOOK_S: Final = 1.0
_OVER: Final = {"finished", "error"}
# A task that is "lost" had ended on a worker that died: the scheduler has it run again.
_GONE: Final = "cancelled"


@dataclass(frozen=True, slots=True)
class HomeReference:
    """Where a worker finds what a task is about; all else is told by its own environment.

    Attributes:
        version: The version of the code.
        digest: What tells whether it comes to the same results.
    """

    home: str
    version: str
    digest: str


def run_on_worker(reference: HomeReference, task: FanOutTask) -> tuple[Any, Exception | None]:
    """Run a task in a process of Dask."""
    if calculation_digest() != reference.digest:
        ours, theirs = code_version(), reference.version
        same = " with other sources" if ours == theirs else ""
        text = f"its worker has meterlake {ours}{same}, and {theirs} is needed: install the same on all workers"
        return None, Conflict(f"Dask: {text}")
    try:
        with open_stores(Settings(home=Path(reference.home), runner=None)) as stores:
            return run_task(stores, task)
    except MeterlakeError as error:
        return None, error


@dataclass(slots=True)
class DaskFanOut:
    """Runs tasks on the workers of a Dask cluster.

    Attributes:
        client: The connection to the scheduler.
        shown: What people call the scheduler.
        reference: What the workers open.
    """

    client: Any
    shown: str
    reference: HomeReference
    _seen: float = field(default_factory=time.monotonic)
    _looked: float = 0.0

    def run(self, tasks: Sequence[FanOutTask]) -> Iterator[TaskEnd]:
        """Run tasks as the workers have time."""
        killed = []
        for end in self._run(tasks, range(len(tasks))):
            if isinstance(end.error, RunnerUnavailable) and len(tasks) > 1:
                killed.append(end.number)
            else:
                yield end
        # Tasks that waited for a worker which another one killed are given up with it.
        for number in killed:
            yield from self._run(tasks, [number])

    def _run(self, tasks: Sequence[FanOutTask], numbers: Sequence[int]) -> Iterator[TaskEnd]:
        waiting = {
            number: self._submit(tasks[number], f"meterlake-{number}-{uuid4()}")
            for number in numbers
        }
        while waiting:
            self._expect_workers()
            over = [number for number, each in waiting.items() if each.status in _OVER]
            if any(each.status == _GONE for each in waiting.values()):
                raise self._lost("it was lost")
            for number in over:
                end = self._end(number, tasks[number].name, waiting[number])
                if end is not None:
                    del waiting[number]
                    yield end
            if not over:
                time.sleep(_POLL_S)

    def _submit(self, task: FanOutTask, key: str) -> Any:
        try:
            return self.client.submit(run_on_worker, self.reference, task, key=key, pure=False)
        except (OSError, RuntimeError, TimeoutError) as error:  # It has closed the connection.
            raise self._lost(f"it took no task: {error}") from None

    def _end(self, number: int, name: str, future: Any) -> TaskEnd | None:
        """How a task ended; None if it has to run again, since its result died with its worker."""
        try:
            if future.status == "error":
                error = future.exception(timeout=_CONNECT_S)
                return TaskEnd(number, name, None, _translate(name, error))
            return TaskEnd(number, name, *future.result(timeout=_CONNECT_S))
        except TimeoutError:
            return None
        except CancelledError:
            raise self._lost("it was lost") from None
        except Exception as error:  # noqa: BLE001 - while its result was fetched it ran again
            return TaskEnd(number, name, None, _translate(name, error))

    def _expect_workers(self) -> None:
        """Go on while the scheduler answers and has workers, or lost them a moment ago.

        Raises:
            RunnerUnavailable: It does not.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        is_there = self.client.status == "running"
        with suppress(Exception):
            if is_there and self.client.scheduler_info(n_workers=-1)["workers"]:
                self._seen = now
        if self.client.status in {"closing", "closed"}:
            raise self._lost("it was lost")
        if now - self._seen > (_LOST_S if is_there else _CONNECT_S):
            raise self._lost("it has no workers any more" if is_there else "it was lost")

    def _lost(self, why: str) -> RunnerUnavailable:
        kept = "what is done stays; run it again when it is back"
        return RunnerUnavailable(f"the Dask scheduler {self.shown}", why, kept)


def _translate(name: str, error: BaseException) -> Exception:
    """What Dask itself says of a task that did not end."""
    kind = type(error).__name__
    if kind == "KilledWorker":
        why = f"its Dask worker died {DEATHS_MAX} times"
        return RunnerUnavailable(
            name, why, "perhaps it needs more memory: give its workers more, and run it again"
        )
    if isinstance(error, ModuleNotFoundError):
        return Conflict(
            f"Dask: its worker lacks the module {error.name!r}: install meterlake[dask]"
        )
    return error if isinstance(error, Exception) else RuntimeError(f"{kind}: {error}")


def import_distributed() -> Any:
    """The package `distributed`, which comes with the extra `dask`.

    Raises:
        NotAvailable: It is not installed.
    """
    try:
        distributed = import_module("distributed")
    except ImportError:
        hint = "install the extra: pip install 'meterlake[dask]'"
        raise NotAvailable("the runner dask", hint) from None
    # What it says of connections that end is said by us; its client has a level of its own.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return distributed


@contextmanager
def open_dask(stores: Stores, runner: FanOutRunner, workers: int) -> Iterator[DaskFanOut]:
    """Have a cluster of this machine, or the one of the runner's address; both ends with the body.

    Raises:
        NotAvailable: The extra is not installed.
        RunnerUnavailable: The scheduler cannot be reached, or has no workers.
    """
    distributed = import_distributed()
    reference = HomeReference(str(stores.home), code_version(), calculation_digest())
    environment = child_environment(stores.settings, workers)
    cluster: AbstractContextManager[str | None] = nullcontext(runner.address)
    if runner.address is None:
        cluster = _local_cluster(distributed, environment, workers)
    with cluster as address, connect(distributed, address, str(runner)) as client:
        yield DaskFanOut(client, str(runner), reference)


@contextmanager
def _local_cluster(distributed: Any, environment: Mapping[str, str], workers: int) -> Iterator[str]:
    cluster = distributed.LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
        env=dict(environment),
    )
    try:
        yield cluster.scheduler_address
    finally:
        cluster.close(timeout=_CONNECT_S)


@contextmanager
def connect(distributed: Any, address: str | None, shown: str) -> Iterator[Any]:
    """A client of a scheduler that has workers; what it asked for is forgotten with the body.

    Raises:
        RunnerUnavailable: The scheduler does not answer in time, or has no workers.
    """
    scheduler = f"the Dask scheduler {shown}"
    try:
        client = distributed.Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise RunnerUnavailable(
            scheduler, f"it cannot be reached: {error}", "start it, or check its address"
        ) from None
    try:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_S)
        except TimeoutError:
            raise RunnerUnavailable(scheduler, "it has no workers", "start `dask worker`") from None
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=_LOOK_S)
