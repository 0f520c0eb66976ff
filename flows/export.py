"""Usage, bills and configuration as files, with a manifest that is written last."""

import flows  # noqa: F401

# isort: split
from typing import Literal

from prefect import flow, task

from flows.command import run_as_command
from flows.exported import run_due, told_of
from flows.fan_out import a_few_at_once, for_each_organization, label_run_of
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, MonthName, Organizations, RunnerName, open_home
from meterlake.cli.export.documents import ExportOptions, resolve_export, subject
from meterlake.pipeline.export.control import run_schedule
from meterlake.pipeline.export.run import export as export_files
from meterlake.pipeline.export.run import run_export, run_to_end


@task(task_run_name="export of {org}")
def export_organization(
    home: Home, org: str, words: ExportOptions, runner: str | None = None
) -> TaskOutcome:
    """Export the data of one organization; once more would be another job, with other names."""
    with open_home(home, runner) as stores:
        organization = stores.find_organization(org)
        return told_of(export_files(organization, resolve_export(organization, words), "flow"))


@task(task_run_name="run an export")
def run_job(home: Home, job: str, *, wait: bool = False) -> TaskOutcome:
    """Run one job; it tries again itself what the world broke, and knows what is there already."""
    run = run_to_end if wait else run_export
    with open_home(home) as stores:
        return told_of(run(stores, job))


@task(task_run_name="run a schedule of exports of {org}")
def run_one_schedule(home: Home, org: str, schedule: str) -> TaskOutcome:
    """Make a job of a schedule now, and run it."""
    with open_home(home) as stores:
        job = run_schedule(stores.find_organization(org), "flow", schedule)
        return told_of(run_to_end(stores, job))


@flow(name="export", flow_run_name="export {source} as {format}", task_runner=a_few_at_once())
def export(  # noqa: PLR0913 - the form that people fill in
    *,
    home: Home = None,
    org: Organizations = (),
    source: Literal["usage", "operational"] = "usage",
    format: Literal["csv", "jsonl", "parquet"] = "csv",
    to: str | None = None,
    month: MonthName | None = None,
    runner: RunnerName | None = None,
) -> list[Row]:
    """Export data as files below a destination; a manifest with sizes and sums is written last.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        source: `usage` is measurements and quantities, `operational` bills and configuration.
        format: CSV and JSON Lines are compressed with gzip.
        to: A folder, `s3://bucket/prefix` or `gs://bucket/prefix`; by default the home's exports.
        month: Only a month: 2026-10, or `last` or `current` by each organization's own calendar.
        runner: threads, processes, dask, or dask://host:port; carries organizations, or one's parts.
    """
    words = ExportOptions(source=source, format=format, to=to, month=month)
    what = f"export {subject(words)}"
    outcomes = for_each_organization(
        export_organization, home, org, words, what=what, runner=runner
    )
    return told("export", outcomes)


@flow(name="export-job", flow_run_name="export {name}")
def export_job(
    *, home: Home = None, org: str, job: str, name: str = "data", wait: bool = False
) -> list[Row]:
    """Run one export that was asked for, or that a schedule made.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code of the organization.
        job: The id of the job.
        name: How the run is named: the schedule's name.
        wait: Wait for another process that works on it.
    """
    code = label_run_of(home, org, f"export {name}")
    return told("export", {code: run_job(home, job, wait=wait)})


@flow(name="export-schedule", flow_run_name="export {name}")
def export_schedule(*, home: Home = None, org: str, schedule: str, name: str = "data") -> list[Row]:
    """Run a schedule once more, now; its regular runs stay what they are.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Code or id of the organization.
        schedule: Code or id of the schedule.
        name: How the run is named: the schedule's name.
    """
    code = label_run_of(home, org, f"export {name}")
    return told("export", {code: run_one_schedule(home, code, schedule)})


@flow(name="export-due", task_runner=a_few_at_once())
def export_due(*, home: Home = None, org: Organizations = ()) -> list[Row]:
    """Run the exports whose schedules are due, and those that wait.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
    """
    return told("export-due", for_each_organization(run_due, home, org, what="export what is due"))


if __name__ == "__main__":
    run_as_command(export)
