"""Tasks that processes of this machine carry; they end when this one does.

A process that dies takes its task with it: another one is started, which runs the task again.
"""

import base64
import os
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Final

from meterlake.model.errors import RunnerUnavailable
from meterlake.model.work.jobs import FanOutRunner
from meterlake.settings import Settings, as_environment, variable
from meterlake.stores import Stores
from meterlake.stores.fan_out.tasks import DEATHS_MAX, FanOutTask, TaskEnd
from meterlake.stores.processes import Child, answering, stop

# So long at most is a signal not heard.
_POLL_S: Final = 0.1
_COMMAND: Final = (sys.executable, "-m", "meterlake.stores.fan_out.child")
_Entry = tuple[int, FanOutTask]


def child_environment(settings: Settings, workers: int) -> dict[str, str]:
    """What processes that share a machine are told: a part of its threads each, and no fan-outs."""
    own = {
        variable("threads"): str(max(1, settings.threads // workers)),
        variable("runner"): "",
        "PYTHONPATH": os.pathsep.join(each for each in sys.path if each),
    }
    return {**as_environment(settings), **own}


class _Died(Exception):
    """The process ended before its task did."""


@dataclass(slots=True)
class _TaskProcess:
    """One process that runs tasks, one after the other."""

    process: Child

    def run(self, task: FanOutTask) -> tuple[Any, Exception | None]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(encode(task) + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except (OSError, ValueError):  # It ended, or was stopped meanwhile.
            line = b""
        if not line.endswith(b"\n"):
            raise _Died
        answer: tuple[Any, Exception | None] = decode(line)
        return answer


def encode(message: object) -> bytes:
    """A message between us and a process of ours, as a line without its end."""
    return base64.b64encode(pickle.dumps(message))


def decode(line: bytes) -> Any:
    """Read a message back."""
    # Both ends are ours: nobody else writes into the pipe.
    return pickle.loads(base64.b64decode(line))  # noqa: S301


class ProcessFanOut:
    """Runs tasks in processes: each has a thread here that hands it one task after the other."""

    def __init__(self, environment: Mapping[str, str], workers: int) -> None:
        self._environment = {**os.environ, **environment}
        self._workers = workers
        self._children: set[Child] = set()
        self._lock = Lock()
        self._closed = False

    def run(self, tasks: Sequence[FanOutTask]) -> Iterator[TaskEnd]:
        """Run tasks, one in each process at a time."""
        waiting: SimpleQueue[_Entry] = SimpleQueue()
        for entry in enumerate(tasks):
            waiting.put(entry)
        ended: SimpleQueue[TaskEnd] = SimpleQueue()
        for number in range(min(self._workers, len(tasks))):
            name = f"fan-out-{number}"
            Thread(target=self._work, args=(waiting, ended), name=name, daemon=True).start()
        for _ in tasks:
            yield _take(ended)

    def close(self) -> None:
        """End all processes, whatever they do."""
        with self._lock:
            self._closed = True
            children = list(self._children)
        for each in children:
            each.terminate()
        for each in children:
            stop(each)

    def _work(self, waiting: "SimpleQueue[_Entry]", ended: "SimpleQueue[TaskEnd]") -> None:
        process: _TaskProcess | None = None
        while not self._closed:
            try:
                number, task = waiting.get_nowait()
            except Empty:
                return
            for _ in range(DEATHS_MAX):
                process = process or self._start()
                if process is None:
                    return
                with suppress(_Died):
                    ended.put(TaskEnd(number, task.name, *process.run(task)))
                    break
                self._forget(process)
                process = None
            else:
                why = f"its process died {DEATHS_MAX} times"
                given_up = RunnerUnavailable(
                    task.name,
                    why,
                    "perhaps it needs more memory than there is: give it more, and run it again",
                )
                ended.put(TaskEnd(number, task.name, None, given_up))

    def _start(self) -> _TaskProcess | None:
        """Start a process, unless all are to end."""
        with self._lock:
            if self._closed:
                return None
            child = answering(_COMMAND, self._environment, None)
            self._children.add(child)
            return _TaskProcess(child)

    def _forget(self, process: _TaskProcess) -> None:
        with self._lock:
            if self._closed:
                return
            self._children.discard(process.process)
        stop(process.process)


def _take(ended: "SimpleQueue[TaskEnd]") -> TaskEnd:
    while True:
        with suppress(Empty):
            return ended.get(timeout=_POLL_S)


@contextmanager
def open_processes(stores: Stores, runner: FanOutRunner, workers: int) -> Iterator[ProcessFanOut]:
    """Have processes; they end with the body."""
    del runner
    fan_out = ProcessFanOut(child_environment(stores.settings, workers), workers)
    try:
        yield fan_out
    finally:
        fan_out.close()
