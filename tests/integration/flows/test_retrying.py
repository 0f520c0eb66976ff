"""What the outside world broke is tried again; what somebody has to mend is not."""

from pathlib import Path

import pytest

from meterlake.model.errors import Busy, Invalid, NotFound, Unavailable

pytestmark = pytest.mark.filterwarnings("ignore")


def tried(error: Exception, failures: int) -> tuple[int, bool]:
    """How often a task that fails some times was tried, and whether its flow came to an end."""
    from prefect import flow

    from flows.retrying import retrying

    tries: list[int] = []

    @retrying("work")
    def work() -> None:
        tries.append(1)
        if len(tries) <= failures:
            raise error

    @flow
    def once() -> None:
        work.with_options(retry_delay_seconds=[0, 0, 0])()

    state = once(return_state=True)
    return len(tries), state.is_completed()


@pytest.mark.usefixtures("prefect")
def test_unavailable_is_tried_again_until_it_works() -> None:
    assert tried(Unavailable("lake", "gone"), failures=2) == (3, True)


@pytest.mark.usefixtures("prefect")
def test_unavailable_is_given_up_after_the_last_delay() -> None:
    from flows.retrying import DELAYS_S

    assert tried(Unavailable("lake", "gone"), failures=9) == (1 + len(DELAYS_S), False)


@pytest.mark.parametrize(
    "error",
    [Invalid("month", "x", "no"), NotFound("lake", "x"), Busy("a", "b"), ZeroDivisionError("bug")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.usefixtures("prefect")
def test_nothing_else_is_tried_again(error: Exception) -> None:
    assert tried(error, failures=1) == (1, False)


def test_every_task_of_the_flows_has_this_policy() -> None:
    import importlib

    from prefect import Task

    from flows.retrying import DELAYS_S, may_succeed_later

    names = [
        path.stem
        for path in (Path(__file__).parents[3] / "flows").glob("*.py")
        if path.stem != "__init__"
    ]
    modules = [importlib.import_module(f"flows.{name}") for name in names]
    tasks = {each for module in modules for each in vars(module).values() if isinstance(each, Task)}

    # Jobs try again themselves, or the worker does, and know what is there already.
    own = {"run_job", "run_jobs", "run_one_schedule", "export_organization"}

    assert len(tasks) >= 7
    assert own <= {task.fn.__name__ for task in tasks}
    for task in (each for each in tasks if each.fn.__name__ not in own):
        assert task.retry_condition_fn is may_succeed_later
        assert (task.retries, task.retry_delay_seconds) == (len(DELAYS_S), list(DELAYS_S))
