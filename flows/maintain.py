"""Upkeep of lakes: small files are merged, what nobody needs any more is removed."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.maintenance.maintain import maintain as maintain_lake


@retrying("maintain the lake of {org}")
def maintain_organization(home: Home, org: str) -> TaskOutcome:
    """Maintain the lake of one organization."""
    with open_home(home) as stores:
        done = maintain_lake(stores.find_organization(org))
    return TaskOutcome(
        {
            "snapshots expired": done.snapshots_expired,
            "files merged": done.compacted_files,
            "replaced files removed": done.replaced_removed,
            "orphans removed": done.orphans_removed,
            "staging folders removed": done.staging_removed,
            "snapshot": done.snapshot,
        }
    )


@flow(name="maintain", task_runner=a_few_at_once())
def maintain(
    *, home: Home = None, org: Organizations = (), runner: RunnerName | None = None
) -> list[Row]:
    """Merge the small files of lakes, and remove what nobody needs any more.

    It is safe beside ingest and beside readers, at any time and as often as you like.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations.
    """
    what = "maintain the lake"
    outcomes = for_each_organization(maintain_organization, home, org, what=what, runner=runner)
    return told("maintain", outcomes)


if __name__ == "__main__":
    run_as_command(maintain)
