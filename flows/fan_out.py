"""One task per organization: a few at once, and one that fails does not stop the others."""

from collections.abc import Sequence
from typing import Any, Final

from prefect import Task, tags
from prefect.futures import PrefectFuture, wait
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from flows.labels import label_run, tag_of
from flows.outcome import TaskOutcome
from flows.parameters import Home, open_home
from flows.retrying import retrying

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


def for_each_organization(
    work: Task[..., TaskOutcome], home: Home, org: Sequence[str | None], *arguments: Any, what: str
) -> dict[str, TaskOutcome]:
    """Run a task for each organization, with the home, its code and the arguments.

    Args:
        work: The task; each of its runs is tagged with its organization.
        home: The home folder.
        org: Codes or ids; all organizations of the home if empty.
        arguments: Those of the task after the home and the code.
        what: What the flow does, in a few words: the run is named by it and the organizations.
    """
    codes = find_organizations(home, org)
    label_run(what, codes)
    futures = {code: _submitted(work, home, code, *arguments) for code in codes}
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


def _submitted(
    work: Task[..., TaskOutcome], home: Home, code: str, *arguments: Any
) -> PrefectFuture[TaskOutcome]:
    with tags(tag_of(code)):
        return work.submit(home, code, *arguments)


def _outcome(future: PrefectFuture[TaskOutcome]) -> TaskOutcome:
    result: Any = future.result(raise_on_failure=False)
    if isinstance(result, BaseException):
        return TaskOutcome(problems=[f"{type(result).__name__}: {result}"])
    assert isinstance(result, TaskOutcome), result
    return result
