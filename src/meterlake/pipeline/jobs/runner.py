"""Who runs jobs: a room of the pipeline says what to run, the worker says where."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from meterlake.model.receipt import Receipt


class Runner(Protocol):
    """Runs jobs, each where it is seen best."""

    def run(
        self,
        kind: str,
        parameters: Mapping[str, Any],
        verb: Callable[[], Iterable[Receipt]],
        over: Callable[[], bool] | None = None,
    ) -> Iterable[Receipt]:
        """Run one job, or all that waits of a kind, to its end.

        Args:
            kind: The name of its flow.
            parameters: Those of the flow, besides the home.
            verb: Does the same without Prefect.
            over: Whether to begin nothing more, where the flow does one thing after the other.

        Returns:
            What the verb gives; nothing if a flow did the work, whose run has the receipts.

        Raises:
            Unavailable: The flow run failed; the job is due again later.
        """
        ...

    def warn_once(self, text: str) -> None:
        """Log something that is found again at every look, the first time."""
        ...
