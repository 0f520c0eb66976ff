"""`meterlake runs`: the jobs of all kinds, how far each is, and how it ended."""

from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options

if TYPE_CHECKING:
    from meterlake.stores import Organization
    from meterlake.stores.state.jobs import JobFilters

_PAGE: Final = 100
_COLUMNS: Final = ("!id", "kind", "subject", "status", "error", "?createdBy=by", "?dtCreated=time")

RunId = Annotated[str, Parameter(name="ID", required=True)]


def register(app: App) -> None:
    """Add the commands."""
    runs = App(name="runs", help="Runs: jobs of all kinds. Look at them, cancel them, repeat them.")
    runs.command(list_runs, name="list")
    runs.command(show)
    runs.command(cancel)
    runs.command(retry)
    app.command(runs)


def list_runs(
    *,
    kind: str | None = None,
    status: str | None = None,
    limit: Limit = 20,
    options: Options = NO_OPTIONS,
) -> None:
    """List the runs, the newest first: files, bills, exports, backfills, and what others are sent.

    Example: `meterlake runs list --status FAILED`

    Args:
        kind: Only runs of this kind: bill, export, backfill, upload, integration_run.
        status: Only runs in this status: PENDING, RUNNING, COMPLETE, FAILED, CANCELLED.
        limit: The largest number that you want to see.
    """
    from meterlake.model.errors import Invalid
    from meterlake.pipeline.access.named_people import with_names
    from meterlake.pipeline.home.runs import RUN_KINDS
    from meterlake.pipeline.home.runs import list_runs as find_runs
    from meterlake.stores.state.core.pages import Page

    if kind is not None and kind.lower() not in RUN_KINDS:
        raise Invalid("--kind", kind, f"it must be one of {', '.join(RUN_KINDS)}")
    kinds = list(RUN_KINDS) if kind is None else [kind.lower()]
    found: list[dict[str, Any]] = []
    with options.open() as organization:
        token, filters = None, _filters(status)
        while len(found) < limit:
            page = Page(min(_PAGE, limit - len(found)), token)
            answer = find_runs(organization, kinds, filters, page)
            found += answer["data"]
            token = answer.get("nextToken")
            if token is None:
                break
        named = with_names(organization, found, "createdBy")
    if options.json:
        for each in named:
            options.output.line(each)
    else:
        shown = [{**each, "status": each.get("outcome", each["status"])} for each in named]
        options.output.rows(shown, _COLUMNS, empty="No runs.")


def _filters(status: str | None) -> "JobFilters":
    from meterlake.model.errors import Invalid
    from meterlake.stores.state.jobs import JobFilters, JobStatus

    if status is None:
        return JobFilters()
    if status.upper() not in JobStatus.__members__:
        raise Invalid("--status", status, f"it must be one of {', '.join(JobStatus)}")
    return JobFilters(statuses=(JobStatus[status.upper()],))


def show(id: RunId, /, *, options: Options = NO_OPTIONS) -> None:
    """Show one run: how far it is, how it ended, and what you can do about it.

    Example: `meterlake runs show ID`

    Args:
        id: The run's id, as in `meterlake runs list`.
    """
    from meterlake.pipeline.access.named_people import with_names
    from meterlake.pipeline.home.runs import get_run

    with options.open() as organization:
        [named] = with_names(organization, [get_run(organization, id)], "createdBy")
    options.output.record(named)


def _permitted(organization: "Organization", options: Options, id: str, verb: str) -> str:
    """Who changes a run, if they may change its kind, too."""
    from meterlake.pipeline.home.runs import RUN_KINDS, find_run

    options.permitted(organization, ("config:update", "run"), [id])
    return options.permitted(organization, RUN_KINDS[find_run(organization, id).kind].needs(verb))


def cancel(id: RunId, /, *, options: Options = NO_OPTIONS) -> None:
    """Cancel a bill job, a statement or an export that waits or runs, or a closing that waits.

    One that runs stops soon. Bills that it has stored stay.

    Example: `meterlake runs cancel ID`

    Args:
        id: The run's id, as in `meterlake runs list`.
    """
    from meterlake.pipeline.home.runs import cancel_run

    with options.open() as organization:
        author = _permitted(organization, options, id, "cancel")
        options.output.record(cancel_run(organization, author, id))


def retry(id: RunId, /, *, options: Options = NO_OPTIONS) -> None:
    """Have a worker repeat what failed or was cancelled.

    A bill job begins anew, with the usage and the prices of now. You send a file again instead.

    Example: `meterlake runs retry ID`

    Args:
        id: The run's id, as in `meterlake runs list`.
    """
    from meterlake.pipeline.home.runs import retry_run

    with options.open() as organization:
        author = _permitted(organization, options, id, "retry")
        options.output.record(retry_run(organization, author, id))
