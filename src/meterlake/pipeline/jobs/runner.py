"""Who runs jobs: a room of the pipeline says what to run, the worker says where."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from meterlake.model.measurements.receipt import Receipt


class Runner(Protocol):
    """Runs jobs, each where it is seen best."""

    def run(
        self,
        flow: str,
        parameters: Mapping[str, Any],
        verb: Callable[[], Iterable[Receipt]],
        over: Callable[[], bool] | None = None,
    ) -> Iterable[Receipt]:
        """Run one job to its end: as a flow, or by the verb that does the same.

        Raises:
            Unavailable: The flow run failed; the job is due again later.
        """
        ...

    def ends(self) -> bool:
        """Whether the process ends: then a job is left in order, for the next one."""
        ...

    def warn_once(self, text: str) -> None:
        """Log something that is found again at every look, the first time."""
        ...
