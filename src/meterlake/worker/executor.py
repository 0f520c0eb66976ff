"""Jobs as flow runs: in a process of their own while a Prefect server answers, here otherwise.

A kind of job is a flow of the same name (`flows/<kind>.py`, or `<module>:<flow>` of several in one
module) and a verb that does the same. Which of the two ran makes no difference: the job's lease
keeps them apart, and a flow process that is killed leaves nothing but a lease that runs out.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import ProxyHandler, Request, build_opener

from meterlake.model import wire
from meterlake.model.errors import Unavailable
from meterlake.model.receipt import Receipt
from meterlake.settings import Settings, as_environment
from meterlake.stores.processes import child

# The exit code of a flow process whose run failed for a reason that the verb would meet as well.
FAILED: Final = 4
_ANSWER_S: Final = 2
_POLL_S: Final = 0.1
_log: Final = logging.getLogger("meterlake.worker")


class Executor:
    """Runs jobs, each where it is seen best."""

    def __init__(self, settings: Settings, stop: Callable[[], bool] = lambda: False) -> None:
        self._home = settings.home.absolute()
        self._api = (settings.prefect_url or "").rstrip("/")
        self._stop = stop
        self._settings = as_environment(settings)
        self._said: set[str] = set()

    def run(
        self,
        kind: str,
        parameters: Mapping[str, Any],
        verb: Callable[[], Iterable[Receipt]],
    ) -> Iterable[Receipt]:
        """Run one job to its end.

        Args:
            kind: The name of its flow.
            parameters: Those of the flow, besides the home.
            verb: Does the same without Prefect.

        Returns:
            What the verb gives; nothing if a flow did the work, whose run has the receipts.

        Raises:
            Unavailable: The flow run failed; the job is due again later.
        """
        if not self._answers():
            return verb()
        code = self._flow(kind, parameters)
        if code == FAILED:
            raise Unavailable(f"the flow run of {kind}", "it failed; its page in Prefect says why")
        if code and not self._stop():
            # Prefect failed, or the process was killed: the job itself says what there is to do.
            _log.warning("%s: its flow process ended with %s", kind, code)
            return verb()
        return ()

    def warn_once(self, text: str) -> None:
        """Log something that is found again at every look, the first time."""
        if text not in self._said:
            self._said.add(text)
            _log.warning(text)

    def _answers(self) -> bool:
        if not self._api:
            return False
        request = Request(f"{self._api}/health")  # noqa: S310 - the setting allows http(s) only
        try:
            # Without proxies, whatever the environment says: usually it is on this machine.
            with build_opener(ProxyHandler({})).open(request, timeout=_ANSWER_S) as answer:
                return bool(answer.status == 200)  # noqa: PLR2004
        except (URLError, OSError):
            return False

    def _flow(self, kind: str, parameters: Mapping[str, Any]) -> int:
        """Run a flow in a process of its own; its exit code."""
        given = wire.dumps_sorted({**parameters, "home": str(self._home)})
        command = [sys.executable, "-m", "flows.run_job", kind, given, "--api", self._api]
        folder = self._home / "prefect"
        folder.mkdir(0o700, exist_ok=True)
        # In a folder of its own, because Prefect reads settings from where it is started.
        with child(command, _environment(self._settings), folder) as process:
            while (code := process.poll()) is None and not self._stop():
                time.sleep(_POLL_S)
        return process.returncode if code is None else code


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    # The child runs in another folder: what is relative to ours, and our .env, would be lost.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    absolute = [str(Path(path).absolute()) for path in paths if path]
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(absolute)}
