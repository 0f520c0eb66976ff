"""What is due to other systems: notifications and runs of integrations."""

import flows  # noqa: F401

# isort: split
from prefect import flow

from flows.command import run_as_command
from flows.fan_out import a_few_at_once, for_each_organization
from flows.outcome import Row, TaskOutcome, told
from flows.parameters import Home, Organizations, RunnerName, open_home
from flows.retrying import retrying
from meterlake.pipeline.integrations.sender import prepare_runs, send_due_runs


@retrying("evaluate the events of {org}")
def prepare_organization(home: Home, org: str) -> TaskOutcome:
    """Have what happened make runs of integrations."""
    with open_home(home) as stores:
        events = prepare_runs(stores.find_organization(org))
    return TaskOutcome({"events": events})


@retrying("send what is due")
def send_all(home: Home) -> None:
    """Send the runs of all organizations that are due."""
    with open_home(home) as stores:
        send_due_runs(stores)


@flow(name="deliver", task_runner=a_few_at_once())
def deliver(
    *, home: Home = None, org: Organizations = (), runner: RunnerName | None = None
) -> list[Row]:
    """Hand over to other systems what is due: notifications, bills, reports of usage.

    A run that fails is due again later, by its own schedule of tries. Runs of all organizations
    are sent, whichever are named: they share the connections.

    Args:
        home: The home folder; what METERLAKE_HOME says if empty.
        org: Codes or ids of organizations whose events are evaluated; all of the home if empty.
        runner: threads, processes, dask, or dask://host:port; what carries evaluation.
    """
    what = "deliver what is due"
    outcomes = for_each_organization(prepare_organization, home, org, what=what, runner=runner)
    send_all(home)
    return told("deliver", outcomes)


if __name__ == "__main__":
    run_as_command(deliver)
