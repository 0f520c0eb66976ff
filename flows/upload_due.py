"""The uploaded files of many organizations into the lake."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from flows.upload import ingest_waiting


@retrying("ingest the uploads of {org}")
def upload_organization(home: Home, org: str) -> TaskOutcome:
    """Ingest the uploaded files of one organization that wait."""
    with open_home(home) as stores:
        outcome, broke, _ = ingest_waiting(home, stores, org)
    if broke:
        raise broke[0]
    return outcome


@flow(name="upload-due", task_runner=a_few_at_once())
def upload_due(
    *, home: Home = None, org: Organizations = (), runner: RunnerName | None = None
) -> list[Row]:
    """Ingest the uploaded files that wait, organization by organization.

    A file that cannot be read fails the run, after all the others are ingested.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations.
    """
    what = "ingest uploaded files"
    outcomes = for_each_organization(upload_organization, home, org, what=what, runner=runner)
    return told("upload-due", outcomes)


if __name__ == "__main__":
    run_as_command(upload_due)
