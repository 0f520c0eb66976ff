"""Objects of bucket inboxes into the lake."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.ingested import books, with_measurements
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.ingest.inbox import poll_inboxes


@retrying("poll the inboxes of {org}")
def poll_organization(home: Home, org: str) -> TaskOutcome:
    """Ingest what the inboxes of an organization hold."""
    with open_home(home) as stores:
        organization = stores.find_organization(org)
        return with_measurements(organization, books(poll_inboxes(organization)))


@flow(name="inbox", task_runner=a_few_at_once())
def inbox(
    *, home: Home = None, org: Organizations = (), runner: RunnerName | None = None
) -> list[Row]:
    """Ingest the objects that lie in bucket inboxes, each version of each object once.

    Several runs may poll one inbox: an object is claimed by one of them. An object that cannot be
    read at all fails the run, after all the others are ingested.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations; all of the home if empty.
        runner: threads, processes, dask, or dask://host:port; what carries the organizations.
    """
    what = "poll bucket inboxes"
    outcomes = for_each_organization(poll_organization, home, org, what=what, runner=runner)
    return told("inbox", outcomes)


if __name__ == "__main__":
    run_as_command(inbox)
