"""`meterlake export jobs`: exports that wait, run, or have ended."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.export.options import Text, show_exported
from meterlake.cli.shell.options import NO_OPTIONS, Limit, Options

Job = Annotated[str, Parameter(name="JOB", required=True)]
Status = Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELLED"]
LISTED: Final = (
    *("!id", "status", "?sourceType=source", "?rows", "error", "?dateCreated=created"),
    *("?scheduledFor=due", "?finishedAt=finished"),
)
_FILES: Final = ("name", "?type", "?meter", "rows", "?bytes", "?sha256")
_PAGE: Final = 50
_CHANGE: Final = ("config:update", "dataexport")


def register(app: App) -> None:
    """Add the commands."""
    jobs = App(name="jobs", help="Jobs of exports: those that wait, run, or have ended.")
    jobs.command(list_, name="list")
    for command in (show, cancel, retry, download, files, verify):
        jobs.command(command)
    app.command(jobs)


def list_(
    *,
    schedule: Text = None,
    status: Annotated[Status | None, Parameter(show_default=False)] = None,
    since: Text = None,
    until: Text = None,
    limit: Limit = _PAGE,
    options: Options = NO_OPTIONS,
) -> None:
    """Show the newest exports: each request with its instant, and how it ended.

    Example: `meterlake export jobs list --status FAILED`

    Args:
        schedule: Only those of a schedule, by its code or id; of a deleted one, by its id.
        status: Only those of this status; FAILED are cancelled ones, too.
        since: Only requests of this day or instant, or later ones, in UTC.
        until: Only requests before this day or instant.
        limit: The largest number that you want to see.
    """
    from meterlake.cli.export.documents import instant
    from meterlake.pipeline.export.control import schedule_of_jobs
    from meterlake.pipeline.export.jobs import ExportJobFilter, list_jobs
    from meterlake.stores.state.core.pages import Page

    with options.open() as organization:
        filters = ExportJobFilter(
            schedule_id=None if schedule is None else schedule_of_jobs(organization, schedule),
            status=status,
            start=instant("--since", since),
            end=instant("--until", until),
        )
        found = list_jobs(organization, filters, Page(limit))["data"]
    rows = (
        found
        if options.json
        else [{**_ended(each), "rows": each.get("result", {}).get("rows")} for each in found]
    )
    options.output.rows(rows, LISTED, empty="No exports.")


def show(job: Job, /, *, options: Options = NO_OPTIONS) -> None:
    """Show an export: how far it is, how it ended, and where its manifest is.

    Example: `meterlake export jobs show 5f0c…`

    Args:
        job: Its id.
    """
    from meterlake.pipeline.export.jobs import get_job

    with options.open() as organization:
        found = get_job(organization, job)
    options.output.record(found if options.json else _ended(found))


def _ended(job: dict[str, Any]) -> dict[str, Any]:
    """A job with the one word for how it ended that people read everywhere."""
    shown = {**job, "status": job.get("outcome", job["status"])}
    return {name: value for name, value in shown.items() if name != "outcome"}


def cancel(job: Job, /, *, options: Options = NO_OPTIONS) -> None:
    """Cancel an export that waits or runs.

    Example: `meterlake export jobs cancel 5f0c…`

    Args:
        job: Its id.
    """
    from meterlake.pipeline.export.jobs import cancel as stop

    with options.open() as organization:
        author = options.permitted(organization, _CHANGE, [job])
        found = stop(organization, job, author)
    options.output.record(found if options.json else _ended(found))


def retry(job: Job, /, *, options: Options = NO_OPTIONS) -> None:
    """Run a failed export once more: it writes the same files, and keeps the existing ones.

    Example: `meterlake export jobs retry 5f0c…`

    Args:
        job: Its id.
    """
    from meterlake.pipeline.export.jobs import retry as again
    from meterlake.pipeline.export.run import run_to_end_here

    with options.open() as organization:
        author = options.permitted(organization, _CHANGE, [job])
        again(organization, job, author)
        exported = run_to_end_here(organization.stores, job)
    show_exported(exported, options.output)


def download(job: Job, /, *, to: Path = Path(), options: Options = NO_OPTIONS) -> None:
    """Save the files of an export, up to a day after its end: a single one, or all in a zip.

    Example: `meterlake export jobs download 5f0c… --to exports`

    Args:
        job: Its id.
        to: The folder.
    """
    from meterlake.pipeline.export.control import save_download

    with options.open() as organization:
        path = save_download(organization, job, to)
    if options.json:
        options.output.line({"path": str(path)})
    else:
        options.output.note(str(path))


def files(job: Job, /, *, place: Text = None, options: Options = NO_OPTIONS) -> None:
    """List the files of an export with their rows, sizes and checksums, as its manifest has them.

    Example: `meterlake export jobs files 5f0c…`

    Args:
        job: Its id.
        place: The destination whose manifest you want to see, by its code; the first one without.
    """
    from meterlake.pipeline.export.delivered import read_delivered

    with options.open() as organization:
        found = read_delivered(organization, job, place)
    options.output.note(f"Manifest: {found['location']}")
    options.output.rows(found["files"], _FILES, empty="No files.")


def verify(job: Job, /, *, place: Text = None, options: Options = NO_OPTIONS) -> int:
    """Compare the files of an export with its manifest, where they lie: sizes, checksums, sums.

    Ends with 1 if anything differs. `meterlake export verify MANIFEST` does it without a home.

    Example: `meterlake export jobs verify 5f0c…`

    Args:
        job: Its id.
        place: The destination that you want to verify, by its code; the first one without.
    """
    from meterlake.pipeline.export.delivered import verify_delivered

    with options.open() as organization:
        found = verify_delivered(organization, job, place)
    if not found["verified"]:
        options.output.rows(found["problems"], ("file", "problem"))
        return 1
    options.output.note("All files are as the manifest says.")
    return 0
