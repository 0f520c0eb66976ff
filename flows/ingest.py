"""Files into the lake: what lies in drop folders, or files that somebody names."""

import flows  # noqa: F401

# isort: split
from pathlib import Path

from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.ingested import books, with_measurements
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.files import expand, ingest_files


@retrying("ingest the drop folder of {org}")
def ingest_drop_folder(home: Home, org: str) -> TaskOutcome:
    """Ingest what lies in an organization's drop folder."""
    with open_home(home) as stores:
        organization = stores.find_organization(org)
        folder = drop_folder(stores, organization.code)
        outcome = books(ingest_inbox(organization, folder), folder)
        return with_measurements(organization, outcome)


@retrying("ingest files of {org}")
def ingest_named_files(
    home: Home, org: str, file: tuple[Path, ...], mapping: Path | None
) -> TaskOutcome:
    """Ingest files where they lie."""
    with open_home(home) as stores:
        organization = stores.find_organization(org)
        outcome = books(ingest_files(organization, expand(file), mapping))
        return with_measurements(organization, outcome)


@flow(name="ingest", task_runner=a_few_at_once())
def ingest(
    *,
    home: Home = None,
    org: Organizations = (),
    file: tuple[Path, ...] = (),
    mapping: Path | None = None,
    runner: RunnerName | None = None,
) -> list[Row]:
    """Ingest files of measurements: all that lies in the drop folders, or files that are named.

    Every row is accepted, a repeat of one that is there, or rejected for a reason. A file that
    cannot be read at all fails the run, after all the others are ingested.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty, for files the only one.
        file: Files and folders to ingest where they lie; the drop folders if empty.
        mapping: How to read the files that are named; by default the mapping in the drop folder
            that claims a file by its name.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations.
    """
    if file:
        # The same files are meant for all organizations only if somebody named these.
        named = org or (None,)
        what = f"ingest {file[0].name if len(file) == 1 else f'{len(file):,} paths'}"
        outcomes = for_each_organization(
            ingest_named_files, home, named, file, mapping, what=what, runner=runner
        )
        return told("ingest", outcomes)
    what = "ingest dropped files"
    outcomes = for_each_organization(ingest_drop_folder, home, org, what=what, runner=runner)
    return told("ingest", outcomes)


if __name__ == "__main__":
    run_as_command(ingest)
