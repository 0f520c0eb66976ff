"""One task per organization: a few at once, and one that fails does not stop the others."""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any, Final

from prefect import Task, tags
from prefect.futures import PrefectFuture, wait
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner
from prefect.utilities.callables import get_call_parameters

from flows.labels import label_run, tag_of
from flows.outcome import TaskOutcome
from flows.parameters import Home, open_home
from flows.retrying import retrying
from meterlake.model.work.jobs import FanOutRunner, RunnerKind
from meterlake.stores.fan_out.dask_cluster import connect, import_distributed

# Each may take as much memory as METERLAKE_DUCKDB_MEMORY says.
AT_ONCE: Final = 2


def a_few_at_once() -> TaskRunner[Any]:
    """The task runner of flows that fan out."""
    return ThreadPoolTaskRunner(max_workers=AT_ONCE)


@retrying("find organizations")
def find_organizations(home: Home, org: Sequence[str | None]) -> list[str]:
    """The codes of the organizations that are named, or of all; None names the only one."""
    with open_home(home) as stores:
        if not org:
            return [each.code for each in stores.state.organizations()]
        return list(dict.fromkeys(stores.state.organization(each).code for each in org))


def task_runner_of(runner: FanOutRunner) -> TaskRunner[Any]:
    """The task runner of Prefect for a runner; without the extra `dask` there is none for Dask.

    Raises:
        NotAvailable: The extra is not installed.
        Unavailable: The Dask scheduler cannot be reached, or has no workers.
    """
    if runner.kind is RunnerKind.THREADS:
        return a_few_at_once()
    if runner.kind is RunnerKind.PROCESSES:
        return ProcessPoolTaskRunner(max_workers=AT_ONCE)
    distributed = import_distributed()
    from prefect_dask.task_runners import DaskTaskRunner  # noqa: PLC0415 - a part of the extra

    if runner.address is not None:
        with connect(distributed, runner.address, str(runner)):
            return DaskTaskRunner(address=runner.address)
    local = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    return DaskTaskRunner(cluster_kwargs={"n_workers": AT_ONCE, **local})


def for_each_organization(
    work: Task[..., TaskOutcome],
    home: Home,
    org: Sequence[str | None],
    *arguments: Any,
    what: str,
    runner: str | None = None,
) -> dict[str, TaskOutcome]:
    """Run a task for each organization, with the home, its code and the arguments.

    Args:
        work: The task; each of its runs is tagged with its organization.
        home: The home folder.
        org: Codes or ids; all organizations of the home if empty.
        arguments: Those of the task after the home and the code.
        what: What the flow does, in a few words: the run is named by it and the organizations.
        runner: What carries the tasks. If there is only one, and its work has parts, it is told and
            carries these by it. The flow's own task runner carries them if None.
    """
    chosen = None if runner is None else FanOutRunner.parse(runner, "runner")
    codes = find_organizations(home, org)
    label_run(what, codes)
    if chosen is not None and len(codes) > 1:
        return _spread(work, task_runner_of(chosen), (home, codes, *arguments))
    takes_runner = chosen is not None and "runner" in signature(work.fn).parameters
    more = {"runner": runner} if takes_runner else {}
    futures = {code: _submitted(work.submit, home, code, *arguments, **more) for code in codes}
    wait(list(futures.values()))
    return {code: _outcome(future) for code, future in futures.items()}


def label_run_of(home: Home, org: str, what: str) -> str:
    """Name a flow run that is for one organization, and tag it.

    Args:
        home: The home folder.
        org: The organization's code or id.
        what: What the run does, in a few words.

    Returns:
        The organization's code.

    Raises:
        NotFound: There is no such organization.
    """
    with open_home(home) as stores:
        code = stores.state.organization(org).code
    label_run(what, [code])
    return code


def _spread(
    work: Task[..., TaskOutcome], carrier: TaskRunner[Any], parameters: tuple[Any, ...]
) -> dict[str, TaskOutcome]:
    """Run the tasks by a task runner that is not the flow's."""
    home, codes, *arguments = parameters
    with carrier as opened:

        def submit(*values: Any) -> PrefectFuture[TaskOutcome]:
            future: PrefectFuture[TaskOutcome] = opened.submit(
                work, get_call_parameters(work.fn, values, {})
            )
            return future

        futures = {code: _submitted(submit, home, code, *arguments) for code in codes}
        return {code: _outcome(future) for code, future in futures.items()}


def _submitted(
    submit: Callable[..., PrefectFuture[TaskOutcome]],
    home: Home,
    code: str,
    *arguments: Any,
    **more: Any,
) -> PrefectFuture[TaskOutcome]:
    with tags(tag_of(code)):
        return submit(home, code, *arguments, **more)


def _outcome(future: PrefectFuture[TaskOutcome]) -> TaskOutcome:
    try:
        result: Any = future.result(raise_on_failure=False)
    except (Exception, CancelledError) as error:  # noqa: BLE001 - what carried it was lost
        result = error
    if isinstance(result, BaseException):
        return TaskOutcome(problems=[f"{type(result).__name__}: {result}"])
    assert isinstance(result, TaskOutcome), result
    return result
