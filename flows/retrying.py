"""The one retry policy: what the outside world broke is tried again, anything else is not."""

from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from prefect import Task, task
from prefect.client.schemas import State

from meterlake.model.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

DELAYS_S: Final = (2, 20, 200)


def may_succeed_later(_task: object, _run: object, state: State[Any]) -> bool:
    """Whether the same again can end better; wrong pricing stays wrong."""
    return isinstance(state.result(raise_on_failure=False), Unavailable)


def retrying(name: str) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a task that is tried again if, and only if, it raises `Unavailable`.

    Args:
        name: The name of a run of it, with its parameters in braces.
    """

    def decorated(function: Callable[P, R]) -> Task[P, R]:
        return task(
            task_run_name=name,
            retries=len(DELAYS_S),
            retry_delay_seconds=list(DELAYS_S),
            retry_condition_fn=may_succeed_later,
        )(function)

    return decorated
