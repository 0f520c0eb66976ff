"""Jobs as flow runs: in a process that is kept warm while a Prefect server answers, here otherwise.

A kind of job is a flow, which the table of kinds names, and a verb that does the same. Which of
the two ran makes no difference: the job's lease keeps them apart, and a runner that is killed
leaves nothing but a lease that runs out.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any, Final
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from meterlake.model.errors import Unavailable
from meterlake.model.measurements.receipt import Receipt
from meterlake.settings import Settings
from meterlake.worker.runners import FAILED, Runners

_ANSWER_S: Final = 2
_OK: Final = 200
_COLD: Final = "the process that runs flows is still being made ready"
_log: Final = logging.getLogger("meterlake.worker")


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
