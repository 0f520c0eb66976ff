"""Jobs as flow runs: in a process that is kept warm while a Prefect server answers, here otherwise.

A kind of job is a flow, which the table of kinds names, and a verb that does the same. Which of
the two ran makes no difference: the job's lease keeps them apart, and a runner that is killed
leaves nothing but a lease that runs out.

Runners are the processes that run flows and stay warm: importing Prefect takes longer than most
jobs. A runner does one job after the other. It ends with the worker, and is replaced when it died,
when it has grown, and after many jobs.
"""

import logging
import os
import select
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from meterlake.model.errors import Unavailable
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.values import wire
from meterlake.settings import Settings, as_environment
from meterlake.stores.processes import answering, stop

_ANSWER_S: Final = 2
_OK: Final = 200
_COLD: Final = "the process that runs flows is still being made ready"
_log: Final = logging.getLogger("meterlake.worker")
Asked = Callable[[], bool]

# The exit code of a flow whose run failed for a reason that the verb would meet as well.
FAILED: Final = 4
_POLL_S: Final = 0.1
_BLOCK: Final = 1 << 16
# A file that is under way when the worker is to end may be finished; `serve` waits for 10 seconds.
_GRACE_S: Final = 5.0
# What it says when it has imported Prefect.
READY: Final = {"ready": True}
# Libraries give some memory never back.
_JOBS_MAX: Final = 1_000
_MEMORY_MAX: Final = 640 << 20
# How many idle ones are kept after much work, and for how long; one of them stays.
_IDLE_MAX: Final = 3
_IDLE_S: Final = 60.0
# When all have been at work for so long, another one is made ready for the job that comes next.
_BUSY_S: Final = 10.0
# One that ends at once must not be started without end.
_AGAIN_S: Final = 30.0


class Executor:
    """Runs jobs, each where it is seen best."""

    def __init__(
        self,
        settings: Settings,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        """See to it that jobs of a home can be run.

        Args:
            settings: The home's.
            stop: Whether the process ends.
        """
        self._home = settings.home.absolute()
        self._api = (settings.prefect_url or "").rstrip("/")
        self._stop = stop
        self._runners = Runners(settings)
        self._warned: set[str] = set()
        # Why jobs run without Prefect at the moment; empty if they do not.
        self._alone = ""
        self._lock = Lock()

    def run(
        self,
        flow: str,
        parameters: Mapping[str, Any],
        verb: Callable[[], Iterable[Receipt]],
        over: Callable[[], bool] | None = None,
    ) -> Iterable[Receipt]:
        """Run one job, or all that waits of a kind, to its end.

        Args:
            flow: The flow that does it, see `flows.kinds`.
            parameters: Those of the flow, besides the home.
            verb: Does the same without Prefect.
            over: Whether to begin nothing more, where the flow does one thing after the other.

        Returns:
            What the verb gives; nothing if a flow did the work, whose run has the receipts.

        Raises:
            Unavailable: The flow run failed; the job is due again later.
        """
        reason = self._why_not()
        if reason:
            self._say_alone(reason)
            return verb()
        given = {**parameters, "home": str(self._home)}
        with self._runners.one() as runner:
            if runner is None:
                self._say_alone(_COLD)
                return verb()
            self._say_alone("")
            code = runner.run(flow, given, over, self._stop)
        if code == FAILED:
            raise Unavailable(
                f"the flow run of {flow}", "it failed", "its page in Prefect says why"
            )
        if code and not self._stop():
            # Prefect failed, or the process was killed: the job itself says what there is to do.
            _log.warning("%s: its flow process ended with %s", flow, code)
            return verb()
        return ()

    def ends(self) -> bool:
        """Whether the process ends: then a job is left in order, for the next one."""
        return self._stop()

    def warn_once(self, text: str) -> None:
        """Log something that is found again at every look, the first time."""
        if text not in self._warned:
            self._warned.add(text)
            _log.warning(text)

    def keep_warm(self) -> None:
        """See to it that the next job finds a process that has imported Prefect."""
        if self._api and not self._why_not():
            self._runners.keep_warm()

    def is_warm(self) -> bool:
        """Whether the next job is a flow run, and begun at once."""
        return self._runners.is_warm()

    def close(self) -> None:
        """End the processes that wait for jobs."""
        self._runners.close()

    def _say_alone(self, reason: str) -> None:
        """Say that jobs run without Prefect from now on and why, or that they are flow runs again."""
        with self._lock:
            before, self._alone = self._alone, reason
        if reason == before or not self._api:
            return
        if reason:
            _log.warning("jobs run without Prefect, and are not seen there: %s", reason)
        else:
            _log.info("jobs are flow runs of Prefect again")

    def _why_not(self) -> str:
        """Why jobs cannot be flow runs; empty if they can."""
        if not self._api:
            return "no server is named"
        request = Request(f"{self._api}/health")  # noqa: S310 - the setting allows http(s) only
        try:
            # Without proxies, whatever the environment says: usually it is on this machine.
            with build_opener(ProxyHandler({})).open(request, timeout=_ANSWER_S) as answer:
                status = int(answer.status)
        except (URLError, OSError) as error:
            why = getattr(error, "reason", error)
            if isinstance(why, TimeoutError):
                why = f"it took more than {_ANSWER_S} s"
            return f"{self._api} did not answer: {why}"
        return "" if status == _OK else f"{self._api} answered {status}"


class FlowProcess:
    """One process that runs flows, one after the other."""

    def __init__(self, home: Path, api: str, environment: Mapping[str, str]) -> None:
        folder = home / "prefect"
        folder.mkdir(0o700, exist_ok=True)
        command = [sys.executable, "-m", "flows.runner", "--home", str(home), "--api", api]
        # In a folder of its own, because Prefect reads settings from where it is started.
        self._process = answering(command, environment, folder)
        self._jobs = 0
        self._memory = 0
        self._is_broken = False
        self._is_ready = False
        self._rest = b""
        self.idle_since = time.monotonic()

    def run(self, kind: str, parameters: Mapping[str, Any], over: Asked | None, end: Asked) -> int:
        """Run a flow to its end; its exit code, as of a process of its own.

        Args:
            kind: The flow.
            parameters: Its parameters.
            over: Whether it is to begin nothing more; None if it does one thing only.
            end: Whether the worker ends: the flow is left as it is, unless it is over soon.
        """
        self._jobs += 1
        self._tell({"kind": kind, "parameters": parameters})
        give_up, told = float("inf"), False
        while (answer := self._answer()) is None and self._process.poll() is None:
            if over is not None and not told and over():
                self._tell({"over": True})
                told = True
            if end():
                give_up = min(give_up, time.monotonic() + (_GRACE_S if over else 0))
            if time.monotonic() >= give_up:
                self.stop()
        # What it wrote before it ended is its answer.
        answer = answer or self._answer()
        self._memory = answer["memory"] if answer else _MEMORY_MAX
        # Without an answer nothing is done, whatever it ended with.
        code = int(answer["code"]) if answer else self._process.returncode or 1
        self._is_broken = code not in {0, FAILED}
        return code

    def is_ready(self) -> bool:
        """Whether it has imported Prefect and begins a job at once."""
        if not self._is_ready:
            self._answer(wait_s=0)
        return self._is_ready

    def is_worn(self) -> bool:
        """Whether it does no further job."""
        ended = self._is_broken or self._process.poll() is not None
        return ended or self._jobs >= _JOBS_MAX or self._memory >= _MEMORY_MAX

    def stop(self) -> None:
        """End it, whatever it does."""
        stop(self._process)

    def _tell(self, order: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # It has ended: whoever waits for its answer sees that.
            self._process.stdin.write(wire.dumps(order) + b"\n")
            self._process.stdin.flush()

    def _answer(self, wait_s: float = _POLL_S) -> dict[str, Any] | None:
        """Its next answer to a job, if it comes within a moment."""
        output = self._process.stdout
        assert output is not None
        # One read may have given several answers.
        if b"\n" not in self._rest:
            if output.closed or not select.select([output], [], [], wait_s)[0]:
                return None
            block = os.read(output.fileno(), _BLOCK)
            if not block:
                # It has closed its output, so it is about to end.
                time.sleep(_POLL_S)
            self._rest += block
        line, ended, rest = self._rest.partition(b"\n")
        self._rest = rest if ended else line
        found: dict[str, Any] | None = wire.loads(line) if ended else None
        if found != READY:
            return found
        self._is_ready = True
        return None


class Runners:
    """The runners of a worker: who needs one takes one that idles, or starts another one."""

    def __init__(self, settings: Settings) -> None:
        self._home = settings.home.absolute()
        self._api = (settings.prefect_url or "").rstrip("/")
        self._environment = _environment(as_environment(settings))
        self._lock = Lock()
        self._idle: list[FlowProcess] = []
        self._busy = 0
        self._all_busy_since = 0.0
        self._again = 0.0
        self._closed = False

    @contextmanager
    def one(self) -> Iterator[FlowProcess | None]:
        """A runner for one job; None while the first one is still being made ready."""
        with self._lock:
            runner = self._fresh()
            self._busy += runner is not None
        if runner is None:
            self.keep_warm()
            yield None
            return
        try:
            yield runner
        finally:
            runner.idle_since = time.monotonic()
            with self._lock:
                self._busy -= 1
                kept = not (runner.is_worn() or self._closed or len(self._idle) >= _IDLE_MAX)
                if kept:
                    self._idle.append(runner)
                else:
                    # One that is worn out is followed by a warm one at once.
                    self._again = 0.0
            if not kept:
                runner.stop()

    def is_warm(self) -> bool:
        """Whether the next job is begun at once."""
        with self._lock:
            return any(each.is_ready() and not each.is_worn() for each in self._idle)

    def keep_warm(self) -> None:
        """See to it that one is ready, and end those that nobody needed for a while."""
        now = time.monotonic()
        with self._lock:
            needless = [each for each in self._idle[:-1] if now - each.idle_since >= _IDLE_S]
            needless += [each for each in self._idle if each.is_worn() and each not in needless]
            self._idle = [each for each in self._idle if each not in needless]
            busy = self._busy > 0 and now - self._all_busy_since < _BUSY_S
            if not self._idle and not busy and not self._closed and now >= self._again:
                self._again = now + _AGAIN_S
                self._idle.append(self._start())
        for each in needless:
            each.stop()

    def close(self) -> None:
        """End all that idle; one that is at work ends with its job."""
        with self._lock:
            idle, self._idle, self._closed = self._idle, [], True
        for each in idle:
            each.stop()

    def _fresh(self) -> FlowProcess | None:
        # The one that was used last: the others may end.
        for runner in reversed(self._idle):
            if runner.is_ready() and not runner.is_worn():
                self._idle.remove(runner)
                if not self._idle:
                    self._all_busy_since = time.monotonic()
                return runner
        if not self._busy:
            # Nobody waits for the first one: it may take half a minute on a busy machine.
            return None
        self._all_busy_since = time.monotonic()
        return self._start()

    def _start(self) -> FlowProcess:
        return FlowProcess(self._home, self._api, self._environment)


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    # The child runs in another folder: what is relative to ours, and our .env, would be lost.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = [str(Path(path).absolute()) for path in paths if path]
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(absolute)}
