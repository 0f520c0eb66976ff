"""Runs over HTTP: the jobs of all kinds in one list, as far as whoever asks may read each kind."""

from collections.abc import Mapping
from typing import Any, Final

from meterlake.api.entities import ordered_page
from meterlake.api.exports import permit_exports
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation, member
from meterlake.api.server.readable_fields import RETRIEVE, with_author_names
from meterlake.model.errors import Forbidden, Invalid, NotFound
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.export import jobs as export_jobs
from meterlake.pipeline.home import runs
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.jobs import JobFilters

_RUNS: Final = f"{ORGANIZATION}/runs"
_RESOURCE: Final = "run"
_KIND: Final = "run"
_PAGE_MAX: Final = 100
_UPDATE: Final = "config:update"
_NAMES: Final = {kind.upper(): kind for kind in runs.RUN_KINDS}
_STATUSES: Final = {each.value: each for each in JobStatus}


async def list_runs(call: Call) -> Any:
    """One page of runs of the kinds that whoever asks may read."""
    query = call.query
    kinds = [_word("kinds", each, _NAMES) for each in query.texts("kinds")] or list(runs.RUN_KINDS)
    filters = JobFilters(
        ids=tuple(query.texts("ids")),
        statuses=tuple(_word("status", each, _STATUSES) for each in query.texts("status")),
        authors=tuple(query.texts("createdBy")),
        start=query.instant("dateCreatedStart"),
        end=query.instant("dateCreatedEnd"),
    )
    readable = [kind for kind in kinds if _may_read(call, kind)]
    this = ordered_page(call, _PAGE_MAX, "dtCreated")
    found = await call.run(runs.list_runs, call.organization, readable, filters, this)
    return {**found, "data": await _shown(call, found["data"])}


def _word(name: str, value: str, known: Mapping[str, Any]) -> Any:
    if value not in known:
        raise Invalid(name, value, f"it must be one of {', '.join(known)}")
    return known[value]


async def get_run(call: Call) -> Any:
    """One run."""
    job = await _find(call)
    return await _answer(call, await call.run(runs.get_run, call.organization, job.id))


async def cancel_run(call: Call) -> Any:
    """End a run that waits, or have the one that runs stop."""
    job = await _find(call)
    _permit(call, job, "cancel")
    found = await call.run(runs.cancel_run, call.organization, call.author, job.id)
    return await _answer(call, found)


async def retry_run(call: Call) -> Any:
    """Have done once more what failed."""
    job = await _find(call)
    _permit(call, job, "retry")
    if job.kind == JobKind.EXPORT:
        exports = await call.run(export_jobs.exports_of_job, call.organization, job.id)
        permit_exports(call, exports)
    found = await call.run(runs.retry_run, call.organization, call.author, job.id)
    return await _answer(call, found)


def _may_read(call: Call, kind: str) -> bool:
    return all(call.permissions.unrestricted(*each) for each in runs.RUN_KINDS[kind].reads)


async def _find(call: Call) -> Job:
    """The job of the run that the path names.

    Raises:
        NotFound: There is none, or none of a kind that whoever asks may read.
    """
    id_ = member(call, _KIND)
    job = await call.run(runs.find_run, call.organization, id_)
    if not _may_read(call, job.kind):
        raise NotFound(_KIND, id_)
    return job


def _permit(call: Call, job: Job, verb: str) -> None:
    """Whoever changes a run must be allowed to change its kind.

    Raises:
        Forbidden: The permission is missing.
    """
    action, resource = runs.RUN_KINDS[job.kind].needs(verb)
    if not call.permissions.unrestricted(action, resource):
        raise Forbidden(f"no permission for {action} on {resource}; ask an administrator for it")


async def _answer(call: Call, run: dict[str, Any]) -> dict[str, Any]:
    [shown] = await _shown(call, [run])
    return shown


async def _shown(call: Call, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs with the names of those who asked for them, and only the actions that are allowed."""
    allowed = [
        {**run, "actions": [each for each in run["actions"] if _may(call, run["kind"], each)]}
        for run in found
    ]
    for run in allowed:
        if "acts" in run:
            run["acts"] = await with_author_names(call, run["acts"], "by")
    return await with_author_names(call, allowed)


def _may(call: Call, name: str, verb: str) -> bool:
    needed = runs.RUN_KINDS[_NAMES[name]].needs(verb)
    allows = call.permissions
    return allows.allows(_UPDATE, _RESOURCE) and allows.unrestricted(*needed)


def _operation(name: str, method: str, path: str, action: str, handler: Handler) -> Operation:
    return Operation(name, method, f"{_RUNS}{path}", action, _RESOURCE, handler)


OPERATIONS: Final = (
    _operation("ListRuns", "GET", "", RETRIEVE, list_runs),
    _operation("GetRun", "GET", "/{id}", RETRIEVE, get_run),
    _operation("CancelRun", "POST", "/{id}/cancel", _UPDATE, cancel_run),
    _operation("RetryRun", "POST", "/{id}/retry", _UPDATE, retry_run),
)
